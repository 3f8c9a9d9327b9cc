#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/config/config.h"
#include "server/net/address.h"

namespace {

using sluice::server::Address;

void require(bool holds) {
  if (!holds) std::abort();
}

// An accepted configuration has valid listen addresses; a refused one has errors with positions.
void check_config(std::string_view text) {
  const auto config = sluice::server::parse_config(text, "/etc/sluice/f");
  if (!config) {
    require(!config.error().empty());
    for (const sluice::RuleError& error : config.error()) {
      require(error.line >= 1 && error.column >= 1 && !error.what.empty());
      require(static_cast<std::size_t>(error.line) <= text.size() + 1);
    }
    return;
  }
  for (const auto& address : {config->http, config->grpc, config->resp, config->admin}) {
    require(sluice::server::parse_address(address).has_value());
  }
  for (const auto& path : config->rules) require(path.starts_with('/'));
  require(config->store == "memory" && config->max_keys >= 128 && config->threads <= 1024);
  require(config->bounds.header_timeout.count() > 0 && config->bounds.connections > 0);
}

void check_address(std::string_view text) {
  const auto address = sluice::server::parse_address(text);
  if (!address) return require(!address.error().empty());
  require(address->kind != Address::Kind::kTcp || !address->host.empty());
  require((address->kind == Address::Kind::kUnix) == !address->path.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_config(text);
  check_address(text);
  return 0;
}
