#include "server/config/tls_reader.h"

#include <string>
#include <string_view>

namespace sluice::server {

net::TlsFiles read_tls(const rules::Fields& section, const rules::schema::Map& map,
                       const std::filesystem::path& folder, rules::Diagnostics& diagnostics) {
  net::TlsFiles files;
  const rules::Node* const node = section.node("tls");
  if (node == nullptr) return files;
  const auto tls = rules::Fields::read(*node, rules::schema::child(map, "tls"), diagnostics);
  const auto read_path = [&](std::string_view name, std::string& target) {
    if (const auto text = tls.text(name); !text.empty()) target = folder / text;
  };
  read_path("cert_file", files.cert_file);
  read_path("key_file", files.key_file);
  read_path("client_ca_file", files.client_ca_file);
  files.requires_client = tls.text("client_certificate") != "optional";
  const bool wanted = !files.key_file.empty() || !files.client_ca_file.empty();
  if (files.cert_file.empty() ? wanted : files.key_file.empty()) {
    diagnostics.add(node->at, "'tls' lacks a file", "expected both 'cert_file' and 'key_file'");
  }
  if (!files.requires_client && files.client_ca_file.empty()) {
    diagnostics.add(tls.at("client_certificate"), "'client_certificate' without 'client_ca_file'",
                    "expected the authorities of the certificates");
  }
  return files;
}

}  // namespace sluice::server
