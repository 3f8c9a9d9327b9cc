#include "server/protocol/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"

namespace sluice::server::grpc {
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

void add_services(std::span<const std::string_view> paths, ServerReflectionResponse& out) {
  std::set<std::string> names{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                              "grpc.reflection.v1alpha.ServerReflection"};
  for (const std::string_view path : paths) names.emplace(path.substr(1, path.rfind('/') - 1));
  for (const std::string& name : names) {
    out.mutable_list_services_response()->add_service()->set_name(name);
  }
}

}  // namespace

void answer_reflection(std::string_view request, std::span<const std::string_view> paths,
                       Reply& reply) {
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
    case ServerReflectionRequest::kListServices: add_services(paths, out); break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      return reply.fail(Code::kInvalidArgument, "the message contains no request");
  }
  out.SerializeToString(&reply.bytes);
}

}  // namespace sluice::server::grpc
