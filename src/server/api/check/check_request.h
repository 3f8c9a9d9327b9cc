#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "server/decide/named_attributes.h"
#include "sluice/attributes.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice::server {

// One request of POST /v1/check, /v1/settle or /v1/report.
struct CheckRequest {
  NamedAttributes attributes;
  std::uint64_t cost = 1;
  std::vector<LimitCost> costs;  // of single limits; at most kMaxCharges
  // The limit of the request itself, and its key: then the rules do not decide. Only alone.
  std::optional<Limit> limit;
  std::string_view limit_key;
  Verb verb = Verb::kTake;
  Duration max_wait{0};                 // of a reservation
  Duration wait{0};                     // for the units of a take; only alone
  std::uint64_t actual = 1;             // /v1/settle: the cost instead of `cost`
  std::vector<LimitCost> actual_costs;  // /v1/settle: instead of `costs`
  // /v1/report: the response. Without `response`, `attributes` has also its attributes.
  std::optional<std::string_view> status;
  std::optional<NamedAttributes> response;
};

enum class CheckKind : std::uint8_t { kCheck, kSettle, kReport };

// Reads the body of POST /v1/check, /v1/settle or /v1/report (docs/http.md): a request, or an array
// of them. It checks the whole body before it passes on the first request.
//
// Use one for each thread. Cost: a few instructions for each byte, twice that for an array.
// Allocates nothing once its buffers have grown, unless the body has an error.
class CheckReader {
 public:
  static constexpr std::size_t kMostRequests = 1000;
  static constexpr std::size_t kMostDepth = 32;

  struct Outcome {
    bool is_array = false;
    bool needs_operate = false;  // the error: the client must not do that
    std::string error;           // "PLACE: PROBLEM; EXPECTED"; empty if the body was read
  };
  // Receives a request, which is valid until it returns; it may have views of the body. `alone` is
  // true for a single request and false in an array.
  using OnRequest = std::function<void(const CheckRequest& request, bool alone)>;
  // Passes the requests to `on_request` in their order. Unless the client may operate, everything
  // is an error but a peek and a take of one unit.
  Outcome read(CheckKind kind, std::string_view body, bool may_operate,
               const OnRequest& on_request);

 private:
  struct Document;
  struct Tables;

  base::JsonReader<Document> json_;
  CheckRequest request_;
  std::vector<std::string_view> limit_words_;  // the key and the words of RL.LIMIT
  std::string names_;                          // of attributes that differ from their bytes
  std::string prefix_;                         // "body.a.", the path of the current object
  std::vector<std::size_t> prefix_sizes_;      // of the paths of the objects around it
};

}  // namespace sluice::server
