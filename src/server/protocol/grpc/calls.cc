// The gRPC part of Protocol: checks calls and answers them. protocol.cc has the HTTP/2 part.
#include <google/protobuf/descriptor.h>

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/stubs/logging.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/protocol/grpc/framing.h"
#include "server/protocol/grpc/message.h"
#include "server/protocol/grpc/protocol.h"

// grpc.health.v1.Health, for the server as a whole ("") and for its service ("ratelimit").
namespace sluice::server::grpc {

// The bytes of a HealthCheckResponse: its field `status`, an enumeration.
constexpr std::string_view kIsServing = "\x08\x01";
constexpr std::string_view kIsNotServing = "\x08\x02";
constexpr std::string_view kServiceUnknown = "\x08\x03";

// Server reflection. The versions v1 and v1alpha have the same wire format.

// Answers a HealthCheckRequest. Errors: kNotFound for an unknown service, kInvalidArgument.
void check_health(std::string_view request, bool serving, Reply& reply) {
  const google::protobuf::LogSilencer quiet;  // no log lines about a client's input
  ::grpc::health::v1::HealthCheckRequest message;
  if (!message.ParseFromArray(request.data(), static_cast<int>(request.size()))) {
    return reply.fail(Code::kInvalidArgument, "the message is not a HealthCheckRequest");
  }
  if (!message.service().empty() && message.service() != "ratelimit") {
    return reply.fail(Code::kNotFound, "unknown service; expected \"\" or \"ratelimit\"");
  }
  reply.bytes = serving ? kIsServing : kIsNotServing;
}

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using ::grpc::reflection::v1::ServerReflectionRequest;
using ::grpc::reflection::v1::ServerReflectionResponse;

const DescriptorPool& pool() {
  // Refers to the types so that their descriptors are linked in.
  ::grpc::health::v1::HealthCheckRequest::descriptor();
  ::grpc::reflection::v1alpha::ServerReflectionRequest::descriptor();
  return *DescriptorPool::generated_pool();
}

void not_found(ServerReflectionResponse& out, const std::string& what) {
  out.mutable_error_response()->set_error_code(static_cast<int>(Code::kNotFound));
  out.mutable_error_response()->set_error_message(what + " is not known here");
}

void add_file(const FileDescriptor& file, std::set<std::string>& added,
              ServerReflectionResponse& out) {
  if (!added.insert(file.name()).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  proto.SerializeToString(out.mutable_file_descriptor_response()->add_file_descriptor_proto());
  for (int i = 0; i < file.dependency_count(); ++i) add_file(*file.dependency(i), added, out);
}

// Adds the file and all files that it imports.
void add_file(const FileDescriptor* file, const std::string& what, ServerReflectionResponse& out) {
  if (file == nullptr) return not_found(out, what);
  std::set<std::string> added;
  add_file(*file, added, out);
}

void add_extension(const ::grpc::reflection::v1::ExtensionRequest& message,
                   ServerReflectionResponse& out) {
  const Descriptor* const type = pool().FindMessageTypeByName(message.containing_type());
  const FieldDescriptor* const field =
      type == nullptr ? nullptr : pool().FindExtensionByNumber(type, message.extension_number());
  add_file(field == nullptr ? nullptr : field->file(), "the extension", out);
}

void add_extension_numbers(const std::string& name, ServerReflectionResponse& out) {
  const Descriptor* const type = pool().FindMessageTypeByName(name);
  if (type == nullptr) return not_found(out, name);
  std::vector<const FieldDescriptor*> fields;
  pool().FindAllExtensions(type, &fields);
  auto& numbers = *out.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(name);
  for (const FieldDescriptor* field : fields) numbers.add_extension_number(field->number());
}

void add_services(const SharedState& shared, ServerReflectionResponse& out) {
  std::set<std::string> names{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                              "grpc.reflection.v1alpha.ServerReflection"};
  for (const auto* paths : {&shared.paths, &shared.stream_paths}) {
    for (const std::string_view path : *paths) names.emplace(path.substr(1, path.rfind('/') - 1));
  }
  for (const std::string& name : names) {
    out.mutable_list_services_response()->add_service()->set_name(name);
  }
}

// Answers one ServerReflectionRequest with the services of the listener and of this folder, and
// with descriptors of messages that are linked in. Errors: kInvalidArgument. If something is not
// found, the reply's message says so.
void answer_reflection(std::string_view request, const SharedState& shared, Reply& reply) {
  const google::protobuf::LogSilencer quiet;  // no log lines about a client's input
  ServerReflectionRequest message;
  if (!message.ParseFromArray(request.data(), static_cast<int>(request.size()))) {
    return reply.fail(Code::kInvalidArgument, "the message is not a ServerReflectionRequest");
  }
  ServerReflectionResponse out;
  out.set_valid_host(message.host());
  *out.mutable_original_request() = message;
  switch (message.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      add_file(pool().FindFileByName(message.file_by_filename()), message.file_by_filename(), out);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      add_file(pool().FindFileContainingSymbol(message.file_containing_symbol()),
               message.file_containing_symbol(), out);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      add_extension(message.file_containing_extension(), out);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      add_extension_numbers(message.all_extension_numbers_of_type(), out);
      break;
    case ServerReflectionRequest::kListServices: add_services(shared, out); break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      return reply.fail(Code::kInvalidArgument, "the message contains no request");
  }
  out.SerializeToString(&reply.bytes);
}

// Health/Watch: reports the status, and each change of it.
class Watch final : public StreamIn {
 public:
  Watch(StreamOut& out, const net::Readiness& serving) : out_(out), serving_(serving) {}

  void on_message(std::string_view message) override {
    if (std::exchange(asked_, true)) return out_.end(Code::kInternal, "expected one message");
    Reply reply;
    check_health(message, serving_.answer(), reply);
    known_ = reply.code == Code::kOk;
    if (reply.code == Code::kNotFound) {
      out_.send(kServiceUnknown);
    } else if (!known_) {
      out_.end(reply.code, reply.text);
    }
    seen_ = !serving_;
    on_tick();
  }
  void on_half_close() override {
    if (!asked_) out_.end(Code::kInternal, "expected one message");
  }
  void on_tick() override {
    const bool serving = serving_;
    if (!known_ || seen_ == serving) return;
    if (out_.send(serving ? kIsServing : kIsNotServing)) seen_ = serving;
  }

 private:
  StreamOut& out_;
  const net::Readiness& serving_;
  bool asked_ = false;
  bool known_ = false;  // the service exists
  bool seen_ = false;   // the status that was last reported
};

// ServerReflectionInfo: answers each request.
class Reflection final : public StreamIn {
 public:
  Reflection(StreamOut& out, const SharedState& shared) : out_(out), shared_(shared) {}

  void on_message(std::string_view message) override {
    Reply reply;
    answer_reflection(message, shared_, reply);
    if (reply.code != Code::kOk) return out_.end(reply.code, reply.text);
    if (!out_.send(reply.bytes)) out_.end(Code::kResourceExhausted, "too many bytes are unread");
  }
  void on_half_close() override { out_.end(Code::kOk, {}); }

 private:
  StreamOut& out_;
  const SharedState& shared_;
};

// The most bytes of incomplete messages and unread replies of all connections of a loop. Beyond it,
// Protocol accepts no more data.
constexpr std::size_t kMostBuffered = std::size_t{64} << 20;
// What each call adds to a client's budget of frames that carry no work; see protocol.cc.
constexpr int kFramesPerCall = 4;
// If a client leaves more bytes unread in one stream, the stream accepts no more of either side.
constexpr std::size_t kMostUnread = std::size_t{256} << 10;

constexpr std::string_view kHealthCheckPath = "/grpc.health.v1.Health/Check";
constexpr std::string_view kHealthWatchPath = "/grpc.health.v1.Health/Watch";
constexpr std::array<std::string_view, 3> kOwnStreamPaths = {
    kHealthWatchPath, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};

// Returns a field that is not copied. `value` must outlive the call of nghttp2, or be a status
// number.
nghttp2_nv field(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

std::string_view number(Code code) {
  constexpr std::array<std::string_view, 17> kNumbers = {
      "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};
  return kNumbers[static_cast<std::size_t>(code)];
}

// Adds the field by which Envoy stops using this server at once, and not after its next checks of
// the health. Returns how many fields it added.
std::size_t add_health(const Stream& stream, bool serving, nghttp2_nv* fields) {
  if (serving || stream.method != Method::kUnary) return 0;
  fields[0] = field("x-envoy-immediate-health-check-fail", "true");
  return 1;
}

// Adds the status of a call. Its text stays in the stream until the stream is closed.
std::size_t add_status(const Stream& stream, nghttp2_nv* fields) {
  fields[0] = field("grpc-status", number(stream.code));
  if (stream.text.empty()) return 1;
  fields[1] = field("grpc-message", stream.text);
  return 2;
}

std::string too_large(std::size_t most) {
  std::string text = "the message is larger than ";
  return text.append(std::to_string(most)).append(" bytes");
}

ssize_t read_messages(nghttp2_session* session, std::int32_t id, std::uint8_t* to, std::size_t room,
                      std::uint32_t* flags, nghttp2_data_source* source, void*) {
  Stream& stream = *static_cast<Stream*>(source->ptr);
  const std::size_t size = stream.read(reinterpret_cast<char*>(to), room);
  if (stream.unread() > 0) return static_cast<ssize_t>(size);
  if (!stream.ended) return size > 0 ? static_cast<ssize_t>(size) : ssize_t{NGHTTP2_ERR_DEFERRED};
  *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  nghttp2_nv fields[2];
  const std::size_t count = add_status(stream, fields);
  if (nghttp2_submit_trailer(session, id, fields, count) != 0) return NGHTTP2_ERR_CALLBACK_FAILURE;
  return static_cast<ssize_t>(size);
}

}  // namespace

bool Stream::full() const { return unread() > kMostUnread; }

bool Stream::send(std::string_view message) {
  if (ended || full() || protocol->shared_.buffered > kMostBuffered) return false;
  append_message(out, message);
  protocol->respond(*this);
  if (!protocol->inside_) protocol->has_output_();
  return true;
}

void Stream::end(Code why, std::string_view what) {
  if (ended) return;
  protocol->end(*this, why, what);
  if (!protocol->inside_) protocol->has_output_();
}

void Protocol::find(Stream& stream, std::string_view path) const {
  const auto is_in = [&](std::span<const std::string_view> paths, Method method) {
    const auto found = std::find(paths.begin(), paths.end(), path);
    if (found == paths.end()) return false;
    stream.method = method;
    stream.call.path = *found;
    return true;
  };
  static_cast<void>(is_in(shared_.paths, Method::kUnary) ||
                    is_in(shared_.stream_paths, Method::kStream) ||
                    is_in({&kHealthCheckPath, 1}, Method::kHealthCheck) ||
                    is_in(kOwnStreamPaths, Method::kStream));
}

void Protocol::on_grpc_header(Stream& stream, std::string_view name, std::string_view value) {
  if (name == "content-type") {
    stream.is_grpc = is_grpc(value);
  } else if (name == "grpc-timeout") {
    const auto timeout = parse_timeout(value);
    stream.bad_timeout = !timeout;
    if (timeout) stream.deadline = now_ + *timeout;
  } else if (name == "grpc-encoding") {
    stream.gzip = value == "gzip";
    stream.bad_encoding = !stream.gzip && value != "identity";
  } else if (name == "authorization") {
    stream.authorization = value;
  } else if (name == "traceparent") {
    stream.traceparent = value;
  }
}

// Checks a call after its header is complete.
void Protocol::opened(Stream& stream) {
  stream.opened = true;
  stream.began = now_;  // starts the timeout of the message
  if (!stream.is_post) return refuse(stream, "405", "expected the method POST");
  if (!stream.is_grpc) return refuse(stream, "415", "expected content-type: application/grpc");
  if (stream.method == Method::kNone) {
    return end(stream, Code::kUnimplemented, "unknown method");
  }
  if (stream.bad_timeout) return end(stream, Code::kInternal, "grpc-timeout is malformed");
  if (stream.bad_encoding) {
    return end(stream, Code::kUnimplemented, "grpc-encoding: expected identity or gzip");
  }
  if (now_ >= stream.deadline) {
    return end(stream, Code::kDeadlineExceeded, "the deadline of the call has passed");
  }
  if (stream.method == Method::kStream) open_stream(stream);
}

void Protocol::open_stream(Stream& stream) {
  ++calls_;
  describe(stream);
  const std::string_view path = stream.call.path;
  if (path == kHealthWatchPath) {
    stream.receiver = std::make_unique<Watch>(stream, shared_.serving);
  } else if (std::ranges::find(kOwnStreamPaths, path) != kOwnStreamPaths.end()) {
    stream.receiver = std::make_unique<Reflection>(stream, shared_);
  } else {
    stream.receiver = shared_.open_stream(stream.call, stream);
  }
  if (!stream.receiver) return stream.end(Code::kInternal, "the stream was not opened");
  if (noticed_) stream.receiver->on_drain();
  // So that the client knows that it is accepted, even if no message follows for long.
  if (!stream.ended) respond(stream);
}

void Protocol::on_data(Stream& stream, std::string_view bytes) {
  if (shared_.buffered + bytes.size() > kMostBuffered) {
    return end(stream, Code::kResourceExhausted, "too many bytes in unfinished calls");
  }
  if (stream.in.empty() && stream.receiver) stream.began = now_;
  stream.in.append(bytes);
  stream.buffered += bytes.size();
  shared_.buffered += bytes.size();
  if (stream.receiver) return deliver(stream);
  static_cast<void>(check_prefix(stream));
}

void Protocol::forget_input(Stream& stream) {
  shared_.buffered -= stream.buffered;
  stream.buffered = 0;
}

// Returns false if the input does not begin with an acceptable message. The call has then ended.
bool Protocol::check_prefix(Stream& stream) {
  const std::string_view in = stream.input();
  if (in.size() < kPrefixBytes) return true;
  const auto [compressed, size] = read_prefix(in);
  if (size > shared_.bounds.body_bytes) {
    end(stream, Code::kResourceExhausted, too_large(shared_.bounds.body_bytes));
  } else if (compressed > 1 || (compressed == 1 && !stream.gzip)) {
    end(stream, Code::kInternal, "a message is compressed, but grpc-encoding does not name gzip");
  } else if (stream.method != Method::kStream && in.size() > kPrefixBytes + size) {
    end(stream, Code::kInternal, "expected one message");
  }
  return !stream.ended;
}

// Returns the first message, decompressed and without its prefix. Returns false if the message is
// not complete yet or is malformed; a malformed message ends the call.
bool Protocol::take_message(Stream& stream, std::string_view& message) {
  const std::string_view in = stream.input();
  if (in.size() < kPrefixBytes) return false;
  const auto [compressed, size] = read_prefix(in);
  if (in.size() < kPrefixBytes + size) return false;
  message = in.substr(kPrefixBytes, size);
  if (compressed == 0) return true;
  const std::size_t most = shared_.bounds.body_bytes;
  const Code result = gunzip(message, most, stream.inflated);
  if (result == Code::kResourceExhausted) {
    end(stream, result, too_large(most));
  } else if (result != Code::kOk) {
    end(stream, result, "the message is not valid gzip");
  }
  message = stream.inflated;
  return result == Code::kOk;
}

void Protocol::on_whole(Stream& stream) {
  if (stream.receiver) return deliver(stream);
  std::string_view message;
  if (!take_message(stream, message)) {
    if (stream.ended) return;
    return end(stream, Code::kInternal,
               stream.in.empty() ? "expected one message" : "the message is incomplete");
  }
  call(stream, message);
}

void Protocol::call(Stream& stream, std::string_view message) {
  stream.call.message = message;
  ++calls_;
  earn(kFramesPerCall);
  switch (stream.method) {
    case Method::kUnary: return submit(stream);
    case Method::kHealthCheck: {
      Reply& reply = shared_.reply;
      reply.clear();
      check_health(message, shared_.serving.answer(), reply);
      if (reply.code != Code::kOk) return end(stream, reply.code, reply.text);
      append_message(stream.out, reply.bytes);
      return end(stream, Code::kOk, {});
    }
    case Method::kStream:
    case Method::kNone: break;
  }
}

// Fills in the call according to its header.
void Protocol::describe(Stream& stream) const {
  stream.call.deadline = stream.deadline;
  stream.call.authorization = stream.authorization;
  stream.call.traceparent = stream.traceparent;
  stream.call.certificate_role = certificate_role_;
  stream.call.peer = peer_;
}

void Protocol::submit(Stream& stream) {
  describe(stream);
  if (shared_.handlers.waits()) {  // the call may outlive the connection
    stream.peer = peer_;
    stream.call.peer = stream.peer;
    stream.in_work = true;
  } else if (answered_ < now_) {
    answered_ = now_;
  }
  static_cast<void>(shared_.handlers.submit(stream));
}

void Protocol::answered(Stream& stream, Handler& handler) {
  const Reply& reply = handler.reply;
  const SteadyTime end_time = shared_.clock.now();
  const SteadyTime began = shared_.handlers.waits() ? stream.began : answered_;
  answered_ = end_time;
  if (!stream.ended) {
    if (end_time >= stream.deadline) {
      end(stream, Code::kDeadlineExceeded, "the deadline of the call has passed");
    } else if (reply.code != Code::kOk) {
      end(stream, reply.code, reply.text);
    } else {
      append_message(stream.out, reply.bytes);
      end(stream, Code::kOk, {});
    }
  }
  handler.finished(stream.call, reply, end_time - began);
  if (!inside_) has_output_();
}

// Gives the complete messages to the stream's StreamIn, as long as the client reads what it is
// sent.
void Protocol::deliver(Stream& stream) {
  std::string_view message;
  while (!stream.ended && !stream.full() && check_prefix(stream) && take_message(stream, message)) {
    stream.in_done += kPrefixBytes + read_prefix(stream.input()).second;
    stream.began = now_;
    stream.used = true;
    // A message pays for its frame. Empty ones, of which one frame brings thousands, do not.
    if (message.empty()) {
      spend(1);
    } else {
      earn(1);
    }
    stream.receiver->on_message(message);
  }
  if (stream.ended) return;
  stream.drop_done();
  if (!stream.whole || stream.full()) return;
  if (!stream.in.empty()) return end(stream, Code::kInternal, "a message is incomplete");
  if (!std::exchange(stream.half_closed, true)) stream.receiver->on_half_close();
}

// Starts the response or continues it.
void Protocol::respond(Stream& stream) {
  stream.count();
  if (stream.begun) {
    nghttp2_session_resume_data(session_, stream.id);
    return;
  }
  stream.begun = true;
  nghttp2_nv fields[3] = {field(":status", "200"), field("content-type", "application/grpc")};
  const std::size_t count = 2 + add_health(stream, shared_.serving, fields + 2);
  nghttp2_data_provider source{};
  source.source.ptr = &stream;
  source.read_callback = read_messages;
  nghttp2_submit_response(session_, stream.id, fields, count, &source);
}

// Ends the call after the messages in `out`.
void Protocol::end(Stream& stream, Code code, std::string_view text) {
  if (stream.ended) return;
  stream.ended = true;
  stream.code = code;
  stream.began = now_;  // starts the timeout of a client that does not read
  append_percent_encoded(stream.text, text);
  forget_input(stream);
  if (stream.begun || !stream.out.empty()) return respond(stream);
  stream.begun = true;
  nghttp2_nv fields[5] = {field(":status", "200"), field("content-type", "application/grpc")};
  std::size_t count = 2 + add_health(stream, shared_.serving, fields + 2);
  count += add_status(stream, fields + count);
  nghttp2_submit_response(session_, stream.id, fields, count, nullptr);
}

// Answers a request that is not a gRPC call.
void Protocol::refuse(Stream& stream, std::string_view status, std::string_view text) {
  stream.ended = stream.begun = true;
  stream.code = Code::kInternal;
  stream.text = text;
  nghttp2_nv fields[4] = {field(":status", status), field("content-type", "application/grpc")};
  const std::size_t count = 2 + add_status(stream, fields + 2);
  nghttp2_submit_response(session_, stream.id, fields, count, nullptr);
  shared_.recorder.add(metrics::Event::kBadRequest);
}

}  // namespace sluice::server::grpc
