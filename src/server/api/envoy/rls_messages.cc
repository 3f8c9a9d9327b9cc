#include "server/api/envoy/rls_messages.h"

#include <algorithm>
#include <limits>

#include "envoy/type/v3/ratelimit_unit.pb.h"
#include "rules/diagnostics.h"

namespace sluice::server {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;

// Returns a request's text in the form that messages can hold.
std::string as_utf8(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t bad = rules::find_invalid_utf8(text);
    out.append(text.substr(0, bad));
    if (bad == text.npos) return out;
    out.append("\xEF\xBF\xBD");
    text.remove_prefix(bad + 1);
  }
}

void write_value(const envoy::Value& value, google::protobuf::Value& out) {
  switch (value.kind) {
    case envoy::Value::Kind::kNull: out.set_null_value(google::protobuf::NULL_VALUE); break;
    case envoy::Value::Kind::kFlag: out.set_bool_value(value.flag); break;
    case envoy::Value::Kind::kNumber: out.set_number_value(value.number); break;
    case envoy::Value::Kind::kText: out.set_string_value(value.text); break;
    case envoy::Value::Kind::kList:
      out.mutable_list_value();
      for (const envoy::Value& item : value.items) {
        write_value(item, *out.mutable_list_value()->add_values());
      }
      break;
    case envoy::Value::Kind::kMap: merge_metadata(value, *out.mutable_struct_value()); break;
  }
}

std::optional<envoy::Question::Override> override_of(const wire::Descriptor& descriptor) {
  if (!descriptor.has_limit()) return std::nullopt;
  const std::int32_t unit = descriptor.limit().unit();
  const bool known = unit > 0 && unit <= static_cast<std::int32_t>(envoy::Unit::kYear);
  return envoy::Question::Override{descriptor.limit().requests_per_unit(),
                                   known ? static_cast<envoy::Unit>(unit) : envoy::Unit::kUnknown};
}

// The names are those of Envoy's own service.
void write_descriptor(const wire::Descriptor& descriptor, Struct& into) {
  auto& fields = *into.mutable_fields();
  ListValue& entries = *fields["entries"].mutable_list_value();
  for (const wire::Entry& entry : descriptor.entries()) {
    entries.add_values()->set_string_value(as_utf8(entry.key()) + "=" + as_utf8(entry.value()));
  }
  if (const auto limit = override_of(descriptor)) {
    const auto unit = static_cast<::envoy::type::v3::RateLimitUnit>(limit->unit);
    fields["limit"].set_string_value(
        "requests_per_unit:" + std::to_string(limit->requests_per_unit) +
        " unit:" + ::envoy::type::v3::RateLimitUnit_Name(unit));
  }
  if (descriptor.has_hits_addend()) {
    fields["hitsAddend"].set_number_value(static_cast<double>(descriptor.hits_addend().value()));
  }
}

void add_header(rls::RateLimitResponse& response, std::string_view name, std::uint64_t value) {
  auto& header = *response.add_response_headers_to_add();
  header.set_key(std::string(name));
  header.set_value(std::to_string(value));
}

}  // namespace

void RlsQuestions::read(const wire::Request& request) {
  entries.clear();
  questions.clear();
  const int most = static_cast<int>(envoy::kMaxDescriptors) + 1;
  const int count = std::min(request.descriptors_size(), most);
  for (int i = 0; i < count; ++i) {
    for (const wire::Entry& entry : request.descriptors(i).entries()) {
      entries.push_back({entry.key(), entry.value()});
    }
  }
  std::span<const envoy::Entry> rest = entries;
  for (int i = 0; i < count; ++i) {
    const wire::Descriptor& descriptor = request.descriptors(i);
    const auto size = static_cast<std::size_t>(descriptor.entries_size());
    const std::uint64_t hits = descriptor.has_hits_addend() ? descriptor.hits_addend().value()
                                                            : std::max(request.hits_addend(), 1U);
    questions.push_back(
        {rest.first(size), override_of(descriptor), hits, descriptor.is_negative_hits()});
    rest = rest.subspan(size);
  }
}

void RlsAnswer::add(const envoy::Status& status, std::string_view name, bool quota) {
  auto& out = *response_.add_statuses();
  out.set_code(static_cast<rls::RateLimitResponse::Code>(status.code));
  if (status.unlimited) out.set_limit_remaining(std::numeric_limits<std::uint32_t>::max());
  if (!status.limit) return;
  auto& limit = *out.mutable_current_limit();
  limit.set_requests_per_unit(status.limit->limit());
  limit.set_unit(static_cast<rls::RateLimitResponse::RateLimit::Unit>(status.unit));
  if (!name.empty()) limit.set_name(name.data(), name.size());
  out.set_limit_remaining(status.remaining);
  out.mutable_duration_until_reset()->set_seconds(
      std::chrono::duration_cast<std::chrono::seconds>(status.until_reset).count());
  if (quota) add_quota(status, out);
}

// A quota covers at least one request.
void RlsAnswer::add_quota(const envoy::Status& status,
                          rls::RateLimitResponse::DescriptorStatus& out) {
  if (status.code != envoy::Code::kOk || status.remaining == 0) return;
  rls::RateLimitResponse::Quota& quota = *out.mutable_quota();
  quota.set_requests(status.remaining);
  quota.mutable_valid_until()->set_seconds(
      std::chrono::floor<std::chrono::seconds>(clock_.now() + status.until_reset)
          .time_since_epoch()
          .count());
  quota.set_id(as_utf8(status.counter));
}

void RlsAnswer::add_headers(const EnvoyOptions& options) {
  const rls::RateLimitResponse::DescriptorStatus* tightest = nullptr;
  const auto over = [](const auto& status) {
    return status.code() == rls::RateLimitResponse::OVER_LIMIT;
  };
  for (const auto& status : response_.statuses()) {
    if (!status.has_current_limit()) continue;
    if (tightest == nullptr || (over(status) && !over(*tightest)) ||
        (over(status) == over(*tightest) &&
         status.limit_remaining() < tightest->limit_remaining())) {
      tightest = &status;
    }
  }
  if (tightest == nullptr) return;
  add_header(response_, options.limit_header, tightest->current_limit().requests_per_unit());
  add_header(response_, options.remaining_header, tightest->limit_remaining());
  add_header(response_, options.reset_header,
             static_cast<std::uint64_t>(tightest->duration_until_reset().seconds()));
}

void merge_metadata(const envoy::Value& metadata, Struct& into) {
  auto& fields = *into.mutable_fields();
  for (const auto& [name, value] : metadata.members) {
    const auto [there, is_new] = fields.insert({name, google::protobuf::Value()});
    google::protobuf::Value& out = there->second;
    if (is_new) {
      write_value(value, out);
    } else if (value.kind == envoy::Value::Kind::kMap && out.has_struct_value()) {
      merge_metadata(value, *out.mutable_struct_value());
    }
  }
}

void write_request(const wire::Request& request, std::span<const std::size_t> quota_over,
                   Struct& into) {
  auto& fields = *into.mutable_fields();
  fields["domain"].set_string_value(as_utf8(request.domain()));
  if (request.hits_addend() != 0) fields["hitsAddend"].set_number_value(request.hits_addend());
  ListValue& descriptors = *fields["descriptors"].mutable_list_value();
  for (const wire::Descriptor& descriptor : request.descriptors()) {
    write_descriptor(descriptor, *descriptors.add_values()->mutable_struct_value());
  }
  if (quota_over.empty()) return;
  ListValue& over = *fields["quotaModeViolations"].mutable_list_value();
  for (const std::size_t index : quota_over) {
    over.add_values()->set_number_value(static_cast<double>(index));
  }
}

}  // namespace sluice::server
