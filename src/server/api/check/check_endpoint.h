#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "limiter/text_buffer.h"
#include "server/decide/named_attributes.h"
#include "server/decide/session.h"
#include "server/net/fiber_sleep.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/message.h"
#include "sluice/attributes.h"
#include "sluice/http_fields.h"
#include "sluice/limit.h"
#include "sluice/permit_id.h"
#include "sluice/rule_answer.h"
#include "sluice/store.h"

namespace sluice::server {

// One request of POST /v1/check, /v1/settle, /v1/cancel, /v1/extend or /v1/report.
struct CheckRequest {
  NamedAttributes attributes;
  std::uint64_t cost = 1;
  std::vector<LimitCost> costs;  // of single limits; at most kMaxCharges
  // The limit of the request itself, and its key: then the rules do not decide. Only alone.
  std::optional<Limit> limit;
  std::string_view limit_key;
  Verb verb = Verb::kTake;
  Duration max_wait{0};  // of a reservation
  Duration wait{0};      // for the units of a take; only alone
  // The id under which budgets count the request; a hold and an extension last for `hold`.
  std::optional<std::string_view> id;
  Duration hold{0};
  // /v1/settle: the cost instead of `cost`. Absent: only limits of `actual_costs` have one.
  std::optional<std::uint64_t> actual;
  std::vector<LimitCost> actual_costs;  // /v1/settle: instead of `costs`
  // /v1/report: the response. Without `response`, `attributes` has also its attributes.
  std::optional<std::string_view> status;
  std::optional<NamedAttributes> response;
};

enum class CheckKind : std::uint8_t { kCheck, kSettle, kReport, kCancel, kExtend };

// Of requests whose verb may have no id (may_have_id).
inline constexpr std::string_view kVerbsWithId = "expected check, peek or charge";

// Reads the body of POST /v1/check and the other paths of CheckKind (docs/http.md): a request, or
// an array of them. It checks the whole body before it passes on the first request.
//
// Use one for each thread. Cost: a few instructions for each byte, twice that for an array.
// Allocates nothing once its buffers have grown, unless the body has an error.
class CheckReader {
 public:
  static constexpr std::size_t kMostRequests = 1000;
  static constexpr std::size_t kMostDepth = 32;

  // Receives a request, which is valid until it returns; it may have views of the body. `alone` is
  // true for a single request and false in an array.
  using OnRequest = std::function<void(const CheckRequest& request, bool alone)>;
  // Passes the requests to `on_request` in their order. Returns the error, "PLACE: PROBLEM;
  // EXPECTED", or an empty text. Unless the client may operate, everything is an error but a peek
  // and a take of one unit.
  std::string read(CheckKind kind, std::string_view body, bool may_operate,
                   const OnRequest& on_request);
  // Of the last body: whether it was an array, and whether the error is that the client must not do
  // that.
  bool is_array() const noexcept { return is_array_; }
  bool needs_operate() const noexcept { return needs_operate_; }
  // The tables of the bodies.
  struct Tables;

 private:
  bool begin(const base::JsonValue& value, base::JsonProblem& problem);
  bool add_attribute(const base::JsonValue& value, base::JsonProblem& problem);
  void open_body(std::string_view name);
  bool add_cost(const base::JsonValue& value, base::JsonProblem& problem);
  bool set_verb(const base::JsonValue& value, base::JsonProblem& problem);
  bool add_to_limit(const base::JsonValue& value, base::JsonProblem& problem);
  bool end_limit(base::JsonProblem& problem);
  bool check_alone(base::JsonProblem& problem) const;
  bool check_privilege(base::JsonProblem& problem);
  bool check_id(base::JsonProblem& problem);
  bool end_request(base::JsonProblem& problem);

  base::JsonReader<CheckReader> json_;
  CheckRequest request_;
  std::vector<std::string_view> limit_words_;  // the key and the words of RL.LIMIT
  std::string names_;                          // of attributes that differ from their bytes
  std::string prefix_;                         // "body.a.", the path of the current object
  std::vector<std::size_t> prefix_sizes_;      // of the paths of the objects around it

  // Of the body that is read.
  CheckKind kind_ = CheckKind::kCheck;
  bool may_operate_ = false;
  const OnRequest* on_request_ = nullptr;  // null: the body is only checked
  bool is_array_ = false;
  bool needs_operate_ = false;
  std::size_t count_ = 0;  // of requests that have begun
  bool has_attributes_ = false, has_costs_ = false, has_limit_ = false;
  bool has_max_wait_ = false, has_wait_ = false, has_hold_ = false;
  NamedAttributes* attributes_ = nullptr;    // those that are read
  std::vector<LimitCost>* costs_ = nullptr;  // those that are read
};

// Writes an answer of POST /v1/check: one JSON object (docs/reference/http.md). `with_taken`: of
// take_at_most. Budgets count the request under `id`, unless that is empty; `is_about_id`: it
// settles, cancels or extends what it holds.
void put_check_answer(TextBuffer& out, const RuleAnswer& answer, bool with_taken = false,
                      std::string_view id = {}, bool is_about_id = false);

// The same for a limit of the request itself, which has no rule. `permit` may be empty.
void put_limit_answer(TextBuffer& out, const NamedDecision& limit, std::string_view permit,
                      bool with_taken, std::string_view id);

// Writes the schema of these answers (base/json_schema.h), of the body of a path of CheckKind, and
// of that of /v1/release.
void write_answer_schema(base::JsonWriter& json);
void write_check_schema(CheckKind kind, base::JsonWriter& json);
void write_permit_schema(base::JsonWriter& json);
// Returns which member of an answer the schema lacks, or an empty text.
std::string find_undocumented(std::string_view answer);

// POST /v1/release and /v1/extend: end a permit that /v1/check has handed out, or start its lease
// again. The body is {"permit":"TEXT"} (docs/http.md).
void answer_permit(bool releases, Session& session, const http::Request& request,
                   http::Response& response);

// POST /v1/check and the other paths of CheckKind, which answer programs in JSON (docs/http.md).
// For one request it returns the answer with the status and the header fields of any other
// endpoint; for an array it returns an array of answers and 200.
//
// There is one for each event loop. Ownership: borrows the session. Cost: the decisions, and a few
// instructions for each byte. A request that waits needs a fiber. Allocates nothing once its
// buffers have grown, unless the request is refused.
class CheckEndpoint {
 public:
  // `sleeps`: for requests that wait for units, which the session allows; null: none may wait.
  explicit CheckEndpoint(Session& session, net::FiberSleeps* sleeps = nullptr)
      : session_(session), sleeps_(sleeps) {}

  // `may_operate`: the client may do more than peek, take one unit, and end its own holds.
  void handle(CheckKind kind, const http::Request& request, bool may_operate,
              http::Response& response);

  // Ends the wait of the request that is being answered, if it waits.
  void stop_waiting() {
    if (sleep_) sleep_->stop();
  }

 private:
  void answer(CheckKind kind, const CheckRequest& request, bool alone, http::Response& response);
  void answer_limit(CheckKind kind, const CheckRequest& request, http::Response& response);
  const RuleAnswer& decide(CheckKind kind, const CheckRequest& request);
  const RuleAnswer& settle(CheckKind kind, const CheckRequest& request);
  std::string find_id(CheckKind kind, const CheckRequest& request, bool alone);

  Session& session_;
  net::FiberSleeps* const sleeps_;
  std::optional<net::FiberSleep> sleep_;  // of the request that waits
  int client_ = -1;                       // the socket of who asks
  bool is_in_array_ = false;              // the request that is being decided
  Buffers key_buffers_;
  std::optional<std::string_view> key_;  // Idempotency-Key of the latest body
  std::string_view id_;                  // of the request that is being decided
  std::string made_id_;                  // if it has none of its own
  PermitId hold_;                        // its name
  CheckReader reader_;
  RuleHttpFields fields_;
  HttpFields limit_fields_;  // of a limit of the request itself
  TextBuffer text_;
};

}  // namespace sluice::server
