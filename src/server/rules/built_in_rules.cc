#include "server/rules/built_in_rules.h"

namespace sluice::server {

std::string_view built_in_rules() noexcept {
  return R"(# The built-in example, which is active because no rules were given. See docs/rules.md.
version: 1
domain: example
rules:
  # In shadow mode: decides and counts, and lets everything pass.
  - name: crawlers
    match: { header.user-agent: "~(?i).*(bot|crawler|spider).*" }
    limits:
      - { name: agent, key: "{header.user-agent}", algorithm: sliding_window_counter, limit: 60, per: 1m }
    mode: shadow
    continue: true
  # Few attempts to log in from one address.
  - name: login
    match: { method: POST, path: /login }
    limits:
      - { name: ip, key: "{ip/64}", algorithm: sliding_window_log, limit: 5, per: 1m }
  # Everything else: 100 requests a second from one address, 200 at once.
  - name: everything
    limits:
      - { name: ip, key: "{ip/64}", algorithm: token_bucket, limit: 100, per: 1s, burst: 200 }
)";
}

}  // namespace sluice::server
