// A gateway with the API of OpenAI that keeps teams and agents within their budgets, with Sluice
// in the program. docs/llm.md has the rules, and the same gateway in Python with a server.
//
// Usage: example_llm_gateway RULES.yaml MODEL_HOST MODEL_PORT. Prints "ready PORT".
#include <httplib.h>
#include <sluice/permit_id.h>
#include <sluice/rule_decider.h>
#include <sluice/sluice.h>

#include <boost/json.hpp>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

namespace json = boost::json;
using namespace std::chrono_literals;
constexpr const char* kPath = "/v1/chat/completions";
constexpr auto kHold = 2min;  // longer than an answer takes

struct Budgets {
  explicit Budgets(sluice::RuleSet set) : rules(std::move(set)) {}
  sluice::RuleSet rules;
  sluice::MemoryStore store;
  sluice::Limiter limiter{store};
};

// A real gateway uses the tokenizer of its model; here a token is a word.
std::uint64_t count_tokens(const json::value& request) {
  std::uint64_t count = 0;
  for (const json::value& message : request.at("messages").as_array()) {
    std::istringstream words(json::value_to<std::string>(message.at("content")));
    for (std::string word; words >> word;) ++count;
  }
  return count;
}

// What the rules read. A real gateway knows team and agent from the API key.
sluice::Attributes attributes_of(const httplib::Request& in, const json::value& request) {
  return {{"path", kPath},
          {"header.x-team", in.get_header_value("X-Team")},
          {"header.x-agent", in.get_header_value("X-Agent")},
          {"body.model", json::value_to<std::string>(request.at("model"))},
          {"body.input_tokens", std::to_string(count_tokens(request))},
          {"body.max_tokens", json::serialize(request.at("max_tokens"))}};
}

// One call of the model, whose budgets know it by its id.
struct Call {
  Budgets& budgets;
  sluice::Attributes attributes;
  sluice::RuleDecider decider{budgets.limiter};
  sluice::PermitId id = sluice::PermitId::random();

  // Holds what the call can cost at most, or settles it: spends what it did cost.
  const sluice::RuleAnswer& ask(sluice::Action action, std::uint64_t units = 1) {
    sluice::RequestCosts costs(units);
    costs.id = &id;
    return decider.decide(budgets.rules, attributes, costs, {}, action);
  }
};

std::uint64_t cost(const std::string& model, std::uint64_t input, std::uint64_t output) {
  return model == "gpt-small" ? input + 2 * output : 3 * input + 15 * output;
}

void fail(httplib::Response& out, int status, const char* code, const std::string& message) {
  const json::value error{{"message", message}, {"type", code}, {"code", code}};
  out.status = status;
  out.set_content(json::serialize(json::value{{"error", error}}), "application/json");
}

// Passes the answer of the model on as it comes, and keeps it. Returns whether all came.
bool relay(httplib::Client& model, const std::string& body, httplib::DataSink& sink,
           std::string& answer) {
  httplib::Request request;
  request.method = "POST";
  request.path = kPath;
  request.headers = {{"Content-Type", "application/json"}};
  request.body = body;
  request.response_handler = [](const httplib::Response& head) { return head.status == 200; };
  request.content_receiver = [&](const char* data, std::size_t size, auto, auto) {
    answer.append(data, size);
    return sink.write(data, size);
  };
  return static_cast<bool>(model.send(request));
}

// A real gateway reads `usage`; here each event with a `delta` is a token.
std::uint64_t count_deltas(std::string_view answer) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; (at = answer.find("delta", at)) != answer.npos; ++at) ++count;
  return count;
}

void chat(Budgets& budgets, const std::string& model, const httplib::Request& in,
          httplib::Response& out) try {
  json::object request = json::parse(in.body).as_object();
  request.emplace("max_tokens", 500);
  const std::uint64_t input = count_tokens(request);
  const std::shared_ptr<Call> call(new Call{budgets, attributes_of(in, request)});
  const sluice::RuleAnswer& held = call->ask({sluice::Verb::kHold, kHold});
  sluice::RuleHttpFields fields;
  for (const auto& [name, value] : fields.of(held))
    out.set_header(std::string(name), std::string(value));
  if (!held.mistake.empty()) throw std::invalid_argument(std::string(held.mistake));
  if (!held.decision) return fail(out, 429, "insufficient_quota", "the budget is used up");
  if (held.degraded()) request["model"] = held.rule->degrade.headers.front().value;
  const std::string name = json::value_to<std::string>(request["model"]);
  const auto stream = [=, body = json::serialize(request)](auto, httplib::DataSink& sink) {
    httplib::Client client(model);
    std::string answer;
    const bool is_whole = relay(client, body, sink, answer);
    call->ask(sluice::Verb::kSettle, answer.empty() ? 0 : cost(name, input, count_deltas(answer)));
    if (is_whole) sink.done();
    return is_whole;
  };
  out.set_chunked_content_provider("text/event-stream", stream);
} catch (const std::exception& wrong) {
  fail(out, 400, "invalid_request_error", wrong.what());
}

// What the team and the agent have spent, and what is left.
void bill(Budgets& budgets, const httplib::Request& in, httplib::Response& out) {
  sluice::RuleDecider decider(budgets.limiter);
  const auto caller =
      attributes_of(in, {{"model", ""}, {"messages", json::array()}, {"max_tokens", 0}});
  const auto& answer = decider.decide(budgets.rules, caller, {}, {}, sluice::Verb::kPeek);
  json::object lines;
  for (const sluice::LimitAnswer& limit : answer.limits) {
    const sluice::Decision& d = limit.decision;
    lines[limit.limit->name] = {{"spent", d.spent}, {"held", d.held}, {"left", d.remaining}};
  }
  out.set_content(json::serialize(lines), "application/json");
}

int main(int count, char** arguments) {
  const auto rules = sluice::RuleSet::load(count == 4 ? arguments[1] : "");
  if (!rules) return std::printf("%s\n", rules.error()[0].to_string().c_str()), 2;
  Budgets budgets(*rules);
  const std::string model = std::string("http://") + arguments[2] + ":" + arguments[3];
  httplib::Server server;
  server.Post(kPath, [&](const auto& in, auto& out) { chat(budgets, model, in, out); });
  server.Get("/v1/spending", [&](const auto& in, auto& out) { bill(budgets, in, out); });
  std::printf("ready %d\n", server.bind_to_any_port("127.0.0.1"));
  std::fflush(stdout);
  server.listen_after_bind();
}
