#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/decide/named_attributes.h"
#include "sluice/attributes.h"
#include "sluice/store.h"

namespace sluice::server {

// What one request of POST /v1/check asks.
struct CheckRequest {
  NamedAttributes attributes;
  std::uint64_t cost = 1;
  Verb verb = Verb::kTake;
};

// Hears of the requests of a body, in their order.
class CheckListener {
 public:
  virtual ~CheckListener() = default;
  // Whether it is the body's only one, and not one of an array. Valid until it returns.
  virtual void on_request(const CheckRequest& request, bool alone) = 0;
};

// Reads the body of POST /v1/check (docs/http.md): a request, or an array of them. The whole body
// is checked before the listener hears of its first request.
//
// One for a thread. Cost: some instructions a byte, twice that for an array; nothing is allocated
// once its buffers have grown, unless the body is wrong.
class CheckReader {
 public:
  static constexpr std::size_t kMostRequests = 1000;
  static constexpr std::size_t kMostDepth = 32;

  struct Outcome {
    bool is_array = false;
    std::string error;  // "WHERE: WHAT; WHAT WOULD BE RIGHT"; empty where it was read
  };
  // Views of the body may be given to the listener.
  Outcome read(std::string_view body, CheckListener& listener);

 private:
  class Handler;

  CheckRequest request_;
  std::string text_;    // what of names and values is not in the body as it is
  std::string prefix_;  // "body.a" of the object that is being read
};

}  // namespace sluice::server
