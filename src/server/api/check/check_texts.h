#pragma once

#include <cstdint>
#include <string_view>

// What the bodies of /v1/check, /v1/settle and /v1/report may contain, as their errors say it.
namespace sluice::server::check_texts {

inline constexpr std::string_view kMembers =
    "expected one of: attributes, cost, costs, limit, verb, max_wait_ms, wait_ms";
inline constexpr std::string_view kSettleMembers =
    "expected one of: attributes, cost, costs, actual";
inline constexpr std::string_view kReportMembers =
    "expected one of: attributes, cost, costs, status, response";
inline constexpr std::string_view kStatus = "expected the status of the response, such as 401";
inline constexpr std::string_view kWholeCost = "expected a whole number from 0 to 4294967295";
inline constexpr std::string_view kNamedCosts =
    "expected an object of limits and their costs, {\"tokens\":700}";
inline constexpr std::string_view kActual =
    "expected the actual cost: a whole number from 0 to 4294967295, or an object of limits and "
    "their actual costs, {\"tokens\":512}";
inline constexpr std::int64_t kMostWaitMs = 86'400'000;
inline constexpr std::string_view kMaxWait =
    "expected milliseconds: a whole number from 0 to 86400000 (a day)";
inline constexpr std::int64_t kMostTakeWaitMs = 300'000;
inline constexpr std::string_view kWaitNumber =
    "expected milliseconds: a whole number from 0 to 300000 (5 minutes)";
inline constexpr std::string_view kVerbs =
    "expected check, peek, refund, reset, charge, take_at_most or reserve";
inline constexpr std::string_view kObjectOfTexts = "expected an object whose members are texts";
inline constexpr std::string_view kRequest = "expected a request, {\"attributes\":{...}}";

}  // namespace sluice::server::check_texts
