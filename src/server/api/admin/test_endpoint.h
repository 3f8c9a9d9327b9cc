#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "insight/top_keys.h"
#include "server/api/admin/admin_endpoint.h"
#include "server/rules/test_folder.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {

// An answer of the endpoint as the client receives it.
struct Answered {
  int status = 0;
  std::string fields;
  std::string type;
  std::string body;

  boost::json::value json() const { return boost::json::parse(body); }
  std::string detail() const { return std::string(json().at("detail").as_string()); }
  // Returns whether a field has that value.
  bool has(std::string_view name, std::string_view value) const {
    return fields.find(std::string(name) + ": " + std::string(value) + "\r\n") != fields.npos;
  }
  std::string field(std::string_view name) const {
    const std::size_t at = fields.find(std::string(name) + ": ");
    if (at == fields.npos) return {};
    const std::size_t begin = at + name.size() + 2;
    return fields.substr(begin, fields.find("\r\n", at) - begin);
  }
};

// An endpoint with a memory store and with rules from some files.
class TestAdmin : public ::testing::Test {
 protected:
  using Fields = std::vector<http::Field>;

  // Opens rules with these texts, "0.yaml", "1.yaml", ...; without texts, the built-in rules.
  void open(const std::vector<std::string>& texts) {
    std::vector<std::string> paths;
    for (const std::string& text : texts) {
      paths.push_back(folder_.write(std::to_string(paths.size()) + ".yaml", text));
    }
    auto manager = RulesManager::open(paths, clock_);
    ASSERT_TRUE(manager) << manager.error().front().to_string();
    manager_ = *std::move(manager);
    reopen();
  }
  void reopen() {
    endpoint_ = std::make_unique<AdminEndpoint>(
        AdminEndpoint{.rules = *manager_,
                      .limiter = limiter_,
                      .token = token_,
                      .status = [this] { return status_; },
                      .done =
                          [this](std::string_view what, std::string_view peer) {
                            done_.push_back(std::string(what) + " by " + std::string(peer));
                          },
                      .overrides = overrides_.get(),
                      .find_blocks = [this](std::size_t most) { return find_blocks(most); },
                      .read_ledger = read_ledger_,
                      .top_keys = counts_keys_ ? &top_keys_ : nullptr});
  }
  Expected<HeldBlocks> find_blocks(std::size_t most) const {
    HeldBlocks found;
    found.blocks = store_.blocked(most);
    found.more = found.blocks.size() == most;
    return found;
  }
  Answered call(std::string_view method, std::string_view target, const Fields& fields = {},
                std::string_view body = {}) {
    http::Request request;
    request.method = method;
    request.target = target;
    request.fields = fields;
    request.body = body;
    request.peer = "127.0.0.1";
    http::Response response;
    endpoint_->handle(request, response);
    return {response.status, response.fields, std::string(response.content_type),
            std::string(response.body)};
  }
  Answered get(std::string_view target) { return call("GET", target); }
  Answered put(std::string_view body, const Fields& fields = {}) {
    return call("PUT", "/v1/rules", fields, body);
  }

  TestFolder folder_;
  testing::ManualClock clock_;
  MemoryStore store_{{.max_keys = 1024}, clock_};
  Limiter limiter_{store_};
  AdminToken token_ = *AdminToken::from({"", ""});
  ServerStatus status_;
  std::vector<std::string> done_;
  std::unique_ptr<RulesManager> manager_;
  std::unique_ptr<ServerOverrides> overrides_;
  const insight::KeyHash hash_;
  insight::TopKeys top_keys_{{}, hash_, clock_};
  bool counts_keys_ = true;
  std::function<Status(const LedgerReplay::See& see)> read_ledger_;
  std::unique_ptr<AdminEndpoint> endpoint_;
};

}  // namespace sluice::server
