#include "cli/admin_client.h"

#include <algorithm>
#include <boost/json.hpp>
#include <iostream>
#include <utility>
#include <vector>

#include "base/client_tls.h"
#include "base/quoted.h"
#include "cli/store_flags.h"
#include "server/config/secret.h"
#include "server/net/address.h"
#include "sluice/http_fields.h"

namespace sluice::cli {
namespace {

using boost::system::error_code;
using server::net::HttpClient;
using Failure = HttpClient::Failure;

constexpr const char* kHttps = "https://";

std::string without_scheme(const std::string& address) {
  for (const std::string_view scheme : {"http://", kHttps}) {
    if (!address.starts_with(scheme)) continue;
    return address.substr(scheme.size(), address.size() - scheme.size() - address.ends_with('/'));
  }
  return address;
}

std::string token_of(const AdminFlags& flags, const server::Config& config) {
  const server::SecretSource source =
      flags.token_file.empty() ? config.admin_token : server::SecretSource{flags.token_file, ""};
  if (!source.is_set()) return {};
  auto token = server::read_token(source);
  if (!token) throw Failed(token.error());
  return *std::move(token);
}

}  // namespace

AdminClient::AdminClient(const AdminFlags& flags) : is_of_config_(flags.admin.empty()) {
  StoreFlags files;
  files.config = flags.config;
  files.finds_config = flags.admin.empty() && flags.token_file.empty();
  const server::Config config = config_of(files);
  shown_ = is_of_config_ ? config.admin : flags.admin;
  is_tls_ = is_of_config_ ? !config.admin_tls.cert_file.empty() : shown_.starts_with(kHttps);
  host_ = without_scheme(shown_);
  const auto address = server::parse_address(host_);
  if (!address) throw wrong_usage("--admin " + shown_ + ": " + address.error());
  address_ = *address;
  const bool is_tcp = address->kind == server::Address::Kind::kTcp;
  if (host_ != shown_ && !is_tcp) {
    throw wrong_usage("--admin " + shown_ + " is no URL; expected " + host_);
  }
  if (!is_of_config_ && !is_tls_ && is_tcp && !flags.ca_file.empty()) {
    throw wrong_usage("--ca-file, but --admin " + shown_ +
                      " does not use TLS; expected --admin https://" + host_ + ", or no --ca-file");
  }
  token_ = token_of(flags, config);
  if (address->kind == server::Address::Kind::kOff) {
    throw Failed("the administration is off; expected its address, such as 127.0.0.1:6070");
  }
  if (is_tls_ && is_of_config_ && is_tcp) shown_.insert(0, kHttps);
  if (!is_tcp) host_ = "localhost";
  options_.answer = std::chrono::milliseconds(static_cast<std::int64_t>(flags.timeout * 1000));
  if (is_tls_) {
    has_certificate_ = !flags.cert_file.empty();
    base::ClientTls tls{flags.ca_file, flags.cert_file, flags.cert_file};
    if (is_of_config_) {
      tls.server_file = config.admin_tls.cert_file;  // the address may be 0.0.0.0, not its name
    } else {
      options_.server_name = address->host;
    }
    auto made = base::make_tls(tls);
    if (!made) throw Failed(made.error());
    options_.tls = *std::move(made);
  }
  if (!config.found_file.empty()) found_ = " (of ./" + config.found_file + ")";
  is_named_ = !is_of_config_ || !found_.empty() || !flags.config.empty();
  connect();
}

void AdminClient::connect() {
  connection_.emplace(options_);
  if (const auto failed = connection_->open(address_)) {
    throw Failed(
        "cannot connect to the administration at " + shown_ + found_ + ": " + failed->why +
        (is_named_ ? hint(*failed) : "; expected --admin ADDR, or --config FILE, of a server"));
  }
}

std::string AdminClient::hint(const Failure& failure) const {
  switch (failure.kind) {
    case Failure::Kind::kCertificate:
      return is_of_config_ ? "; expected the certificate in admin.tls.cert_file: after a change of "
                             "the file, the server needs SIGHUP"
                           : "; expected --ca-file FILE with the authority that signed it";
    case Failure::Kind::kName:
      return "; expected --admin https://HOST:PORT with a name of the certificate";
    case Failure::Kind::kAlert:
      return has_certificate_ ? "; expected a certificate in --cert-file that the server accepts"
                              : "; expected --cert-file FILE if the server asks for a certificate";
    case Failure::Kind::kNoTls: return "; expected --admin " + host_;
    case Failure::Kind::kNoHttp:
      return is_tls_ || host_ == "localhost"  // a Unix socket
                 ? ""
                 : "; if it uses TLS, expected --admin https://" + host_;
    case Failure::Kind::kOther: break;
  }
  return {};
}

std::optional<boost::json::object> json_of(const AdminClient::Answer& answer) {
  error_code error;
  boost::json::value value = boost::json::parse(answer.body, error);
  if (error || !value.is_object()) return std::nullopt;
  return std::move(value.as_object());
}

std::string AdminClient::refusal(const Answer& answer) const {
  const auto problem = json_of(answer);
  const auto* detail = problem ? problem->if_contains("detail") : nullptr;
  if (detail == nullptr || !detail->is_string()) {  // what expects TLS may answer 400, too
    return strange() + (answer.status == 400 ? hint({Failure::Kind::kNoHttp, {}}) : "");
  }
  if (answer.status != 401) {
    constexpr std::string_view kHistory = "GET /v1/rules/history";
    std::string text(detail->as_string());
    if (const std::size_t at = text.find(kHistory); at != text.npos) {
      text.replace(at, kHistory.size(), "sluice rules history --admin " + shown_);
    }
    return text;
  }
  return "the administration at " + shown_ +
         (token_.empty() ? " requires a token" : " refused the token") +
         "; expected --token-file with the file of its token, or --config with the configuration "
         "file of the server";
}

std::string AdminClient::strange() const {
  return shown_ + " did not answer like the administration of Sluice";
}

AdminClient::Answer AdminClient::ask(std::string_view method, std::string_view target,
                                     std::string body, std::string_view if_match) {
  const std::string authorization = "Bearer " + token_;
  std::vector<HttpField> fields{{"Host", host_}};
  if (!token_.empty()) fields.push_back({"Authorization", authorization});
  if (!if_match.empty()) fields.push_back({"If-Match", if_match});
  if (std::exchange(has_asked_, true)) connect();
  Answer answer;
  if (const auto failed = connection_->ask(method, target, fields, std::move(body), answer)) {
    // The server may have the request, and be busy or stopped.
    const std::string_view effect =
        method == "GET" ? "" : "; it may still take effect: look before you repeat it";
    throw Failed(failed->kind == Failure::Kind::kNoHttp
                     ? strange() + hint(*failed)
                     : "no answer of the administration at " + shown_ + ": " + failed->why +
                           hint(*failed) + std::string(effect));
  }
  return answer;
}

boost::json::object AdminClient::ask_json(std::string_view method, std::string_view target,
                                          std::string body, std::string_view if_match) {
  const Answer answer = ask(method, target, std::move(body), if_match);
  if (answer.status != 200) throw Failed(refusal(answer));
  auto json = json_of(answer);
  if (!json) throw Failed(strange());
  return *std::move(json);
}

std::vector<const boost::json::object*> AdminClient::objects_in(const boost::json::object& json,
                                                                std::string_view name) const {
  std::vector<const boost::json::object*> objects;
  const auto* const list = json.if_contains(name);
  if (list == nullptr || !list->is_array()) throw Failed(strange());
  for (const boost::json::value& one : list->as_array()) {
    if (!one.is_object()) throw Failed(strange());
    objects.push_back(&one.as_object());
  }
  return objects;
}

std::shared_ptr<AdminFlags> add_admin_flags(Command command, bool has_config,
                                            std::vector<std::string>* servers) {
  auto flags = std::make_shared<AdminFlags>();
  const std::string help =
      "The address of the server's administration; https://HOST:PORT for TLS [127.0.0.1:6070]";
  if (servers == nullptr) {
    command.add_option("--admin", flags->admin, help, "ADDR");
  } else {
    command.add_option("--admin", *servers, help + "; once for each server", "ADDR").take_all();
  }
  if (!has_config) {
    command.add_option("--config", flags->config,
                       "Read the token, and the address if none is given, from this server "
                       "configuration file [./sluice.yaml]",
                       "FILE");
  }
  command.add_option("--token-file", flags->token_file,
                     "The file that contains the administration token", "FILE");
  command.add_option("--ca-file", flags->ca_file,
                     "The file of certificate authorities for https://, PEM [the system's]",
                     "FILE");
  command.add_option("--cert-file", flags->cert_file,
                     "The file of a client certificate and its key for TLS, PEM", "FILE");
  command
      .add_option("--timeout", flags->timeout, "The longest time to wait for each answer [10]",
                  "SECONDS")
      .range(0.1, 3600.0);
  return flags;
}

std::string options_of(const AdminFlags& flags) {
  return option_text("--admin", flags.admin) + option_text("--config", flags.config) +
         option_text("--token-file", flags.token_file) + option_text("--ca-file", flags.ca_file) +
         option_text("--cert-file", flags.cert_file);
}

AdminFlags flags_of(const AdminFlags& flags, const std::vector<std::string>& servers,
                    const std::string& address) {
  AdminFlags one = flags;
  one.admin = address;
  const bool has_tls = std::ranges::any_of(
      servers, [](const std::string& other) { return other.starts_with(kHttps); });
  // They are for the addresses with TLS.
  if (has_tls && !address.starts_with(kHttps)) one.ca_file = one.cert_file = {};
  return one;
}

int ask_servers(const AdminFlags& flags, const std::vector<std::string>& servers,
                std::string_view command, const std::function<int(const AdminFlags&)>& ask,
                bool is_json) {
  if (servers.empty()) return ask(flags);
  const bool are_several = servers.size() > 1;
  int status = 0;
  std::size_t done = 0;
  for (const std::string& address : servers) {
    if (are_several && !is_json) std::cout << address << ":\n";
    try {
      status = std::max(status, ask(flags_of(flags, servers, address)));
    } catch (const Failed& failed) {
      if (!are_several) throw;
      std::cout << std::flush;
      std::cerr << "sluice: " << command << ": " << address << ": " << failed.what() << '\n';
      if (failed.is_done) {
        ++done;
      } else {
        status = std::max(status, kFailed);
      }
    }
  }
  return done == servers.size() ? kFailed : status;
}

std::string only_limit(AdminClient& client, const std::string& query, std::string_view rule) {
  const boost::json::object answer = client.ask_json("GET", "/v1/keys?" + query);
  std::string known;
  const auto limits = client.objects_in(answer, "limits");
  for (const boost::json::object* const limit : limits) {
    known.append(known.empty() ? "" : ", ").append(text_in(*limit, "name"));
  }
  if (limits.size() == 1) return known;
  throw wrong_usage("the rule " + base::in_quotes(rule) + " has " +
                    (limits.empty() ? "no limits; expected a rule with limits"
                                    : "several limits; expected RULE/LIMIT, one of: " + known));
}

std::uint64_t number_in(const boost::json::object& json, std::string_view name) {
  const auto* const value = json.if_contains(name);
  error_code error;
  const auto number = value != nullptr ? value->to_number<std::uint64_t>(error) : 0;
  return error ? 0 : number;
}

std::string text_in(const boost::json::object& json, std::string_view name) {
  const auto* const value = json.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

bool is_true(const boost::json::object& json, std::string_view name) {
  const auto* const value = json.if_contains(name);
  return value != nullptr && value->is_bool() && value->as_bool();
}

void each_object(const boost::json::object& json, std::string_view name,
                 const std::function<void(const boost::json::object&)>& use) {
  const auto* const values = json.if_contains(name);
  if (values == nullptr || !values->is_array()) return;
  for (const auto& value : values->as_array()) {
    if (value.is_object()) use(value.as_object());
  }
}

std::string url_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (base::is_letter_or("-._~", c)) {
      out += c;
    } else {
      base::append_hex(out += '%', c);
    }
  }
  return out;
}

std::string encoded_once(std::string_view text) {
  std::string out;
  for (const char& c : text) out += c == '%' ? std::string(1, c) : url_encoded({&c, 1});
  return out;
}

}  // namespace sluice::cli
