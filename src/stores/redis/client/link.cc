// One connection to a Redis server: the handshake (AUTH, HELLO, SELECT, and whether
// the module is there), commands in a pipeline, and the deadlines of each. LinkMachine decides
// without sockets what to do; Link does it.

#include "stores/redis/client/link.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "stores/redis/client/command.h"

namespace sluice::redis {
namespace {

constexpr std::string_view kName = "sluice";

struct Meaning {
  std::string_view begins;
  std::string_view holds;
  std::string_view what;
};

// Errors that end a handshake at any stage.
constexpr std::array<Meaning, 9> kFatal = {{
    {"WRONGPASS", "", "wrong user name or password"},
    {"ERR invalid password", "", "wrong password"},
    {"LOADING", "", "the server is still loading its data"},
    {"MASTERDOWN", "", "the server is a replica that has lost its master"},
    {"DENIED", "", "the server is in protected mode and accepts no remote connections"},
    {"ERR", "max number of clients", "the server has its maximum number of clients (maxclients)"},
    {"ERR", "max clients", "the server has its maximum number of clients (maxclients)"},
    {"ERR", "without any password configured",
     "a password is configured, but the server requires none"},
    {"ERR", "no password is set", "a password is configured, but the server requires none"},
}};

std::string_view fatal_meaning(std::string_view error) noexcept {
  for (const Meaning& one : kFatal) {
    if (error.starts_with(one.begins) && error.find(one.holds) != error.npos) return one.what;
  }
  return {};
}

}  // namespace

Handshake::Step Handshake::begin() {
  if (options_.protocol == 2) return begin_resp2();
  return enter(Step::kHello);
}

Handshake::Step Handshake::begin_resp2() {
  return enter(options_.password.empty() ? Step::kName : Step::kAuth);
}

Handshake::Step Handshake::enter(Step step) {
  step_ = step;
  output_.clear();
  const std::string& password = options_.password;
  switch (step) {
    case Step::kHello:
      if (password.empty()) {
        say({"HELLO", "3", "SETNAME", kName});
      } else {
        const std::string_view given = options_.username;
        const std::string_view user = given.empty() ? std::string_view("default") : given;
        say({"HELLO", "3", "AUTH", user, password, "SETNAME", kName});
      }
      break;
    case Step::kAuth:
      if (options_.username.empty()) {
        say({"AUTH", password});
      } else {
        say({"AUTH", options_.username, password});
      }
      break;
    case Step::kName: say({"CLIENT", "SETNAME", kName}); break;
    case Step::kSelect: say({"SELECT", std::to_string(options_.database)}); break;
    case Step::kRole: say({"ROLE"}); break;
    case Step::kReady:
    case Step::kFailed: break;
  }
  return step;
}

void Handshake::say(std::initializer_list<std::string_view> elements) {
  output_.append("*").append(std::to_string(elements.size())).append("\r\n");
  for (const std::string_view element : elements) {
    output_.append("$").append(std::to_string(element.size())).append("\r\n");
    output_.append(element).append("\r\n");
  }
}

Handshake::Step Handshake::on_reply(const Reply& reply) {
  if (reply.type == Reply::kError) return on_error(reply.text);
  switch (step_) {
    case Step::kHello: {
      if (reply.field("server").empty() && reply.field("version").empty()) {
        return fail("the server is not Redis: its answer to HELLO is unknown");
      }
      const std::string_view role = reply.field("role");
      if (!role.empty() && options_.only_master) {
        role_known_ = true;
        if (!is_master(role)) return Step::kFailed;
      }
      return after_name();
    }
    case Step::kAuth: return enter(Step::kName);
    case Step::kName: return after_name();
    case Step::kSelect:
      return enter(options_.only_master && !role_known_ ? Step::kRole : Step::kReady);
    case Step::kRole:
      if (!reply.is_array_of(1)) {
        return fail("the server is not Redis: its answer to ROLE is unknown");
      }
      return is_master(reply[0].string()) ? enter(Step::kReady) : Step::kFailed;
    case Step::kReady:
    case Step::kFailed: break;
  }
  return fail("the server sent a reply without a command");
}

Handshake::Step Handshake::after_name() {
  if (options_.database != 0) return enter(Step::kSelect);
  return enter(options_.only_master && !role_known_ ? Step::kRole : Step::kReady);
}

bool Handshake::is_master(std::string_view role) {
  if (role != "master") fail("the server is not a master but a " + shown(role));
  return role == "master";
}

Handshake::Step Handshake::on_error(std::string_view error) {
  if (const std::string_view what = fatal_meaning(error); !what.empty()) return fail(what, error);
  if (step_ == Step::kHello) return on_hello_refused(error);
  if (error.starts_with("NOAUTH")) return fail("the server requires a password", error);
  switch (step_) {
    case Step::kName: return after_name();         // the name is optional
    case Step::kRole: return enter(Step::kReady);  // no permission; a write will show the role
    case Step::kAuth: return fail("the server refuses the password", error);
    case Step::kSelect:
      if (error.find("out of range") != error.npos) {
        return fail("the server has no database " + std::to_string(options_.database), error);
      }
      return fail("database " + std::to_string(options_.database) + " cannot be selected", error);
    default: return fail("the server refuses the connection", error);
  }
}

Handshake::Step Handshake::on_hello_refused(std::string_view error) {
  if (error.starts_with("NOAUTH") && options_.password.empty()) {
    return fail("the server requires a password", error);
  }
  if (options_.protocol == 0) return begin_resp2();
  return fail("the server does not support RESP3 (protocol 3); expected protocol 0 or 2", error);
}

Handshake::Step Handshake::fail(std::string_view what, std::string_view said) {
  why_ = what;
  if (!said.empty()) why_.append(" (it says: ").append(shown(said)).append(")");
  return Step::kFailed;
}

namespace {

using Kind = LinkAction::Kind;
using std::chrono::milliseconds;

// How late a deadline may be noticed, so that deadlines close to each other share a timer.
constexpr auto kDeadlineGrain = std::chrono::microseconds{500};

}  // namespace

LinkMachine::LinkMachine(LinkOptions options)
    : options_(std::move(options)), handshake_(options_), pipeline_(options_.max_pending) {}

std::string_view LinkMachine::submit(Command& command, bool asking, Time now) {
  if (has_ended()) return "the connection has ended";
  const bool was_idle = pipeline_.in_flight() == 0;
  if (!pipeline_.submit(command, asking)) return "too many requests are pending";
  if (was_idle) last_heard_ = now;
  wake_by(command.deadline);
  return {};
}

// --- events -----------------------------------------------------------------------------------

void LinkMachine::on_connected(Time now) {
  phase_ = Phase::kHandshake;
  last_heard_ = now;
  wake_by(now + options_.connect_timeout);
  take(handshake_.begin());
}

void LinkMachine::on_input(std::size_t bytes, Time now) {
  reader_.commit(bytes);
  last_heard_ = now;
}

void LinkMachine::on_output(std::size_t bytes) noexcept {
  const std::size_t of_greeting = std::min(bytes, greeting_unsent_);
  greeting_unsent_ -= of_greeting;
  pipeline_.handed(bytes - of_greeting);
}

void LinkMachine::on_timer(Time now) {
  wake_at_ = Time::max();
  if (has_ended()) return;
  pipeline_.expire(now, ended_);
  if (const auto deadline = pipeline_.next_deadline()) wake_by(*deadline);
  std::optional<Time> silent_at;
  if (phase_ == Phase::kHandshake) silent_at = last_heard_ + options_.connect_timeout;
  if (pipeline_.in_flight() > 0) silent_at = last_heard_ + options_.longest_silence;
  if (silent_at && now >= *silent_at) {
    const auto silence = std::chrono::duration_cast<milliseconds>(now - last_heard_);
    return shut("the server has not answered for " + std::to_string(silence.count()) + " ms");
  }
  if (silent_at) wake_by(*silent_at);
  if (wake_at_ != Time::max()) wake_at_ = std::max(wake_at_, now + kDeadlineGrain);
}

void LinkMachine::on_closed(std::string_view why) {
  if (!has_ended()) shut(why);
}

void LinkMachine::shut(std::string_view why) {
  was_ready_ = is_ready();
  why_ = why;
  phase_ = Phase::kClosing;
  wake_at_ = Time::max();
  greeting_.clear();
  pipeline_.abandon(why_, ended_);
}

// --- actions ----------------------------------------------------------------------------------

LinkAction LinkMachine::next() {
  if (phase_ == Phase::kClosing && !std::exchange(is_closed_, true)) return {Kind::kClose};
  if (finished_ < ended_.size()) return ended_[finished_++];
  ended_.clear();
  finished_ = 0;
  switch (phase_) {
    case Phase::kHandshake: return continue_handshake();
    case Phase::kReady: return answer_commands();
    case Phase::kClosing: phase_ = Phase::kEnded; return {Kind::kEnded};
    case Phase::kConnecting:
    case Phase::kEnded: break;
  }
  return {};
}

LinkAction LinkMachine::continue_handshake() {
  while (phase_ == Phase::kHandshake) {
    switch (reader_.next()) {
      case ReplyReader::Progress::kMore: return {};
      case ReplyReader::Progress::kBad: shut(reader_.why()); break;
      case ReplyReader::Progress::kReply: take(handshake_.on_reply(reader_.reply()));
    }
  }
  return is_ready() ? LinkAction{Kind::kReady} : next();
}

void LinkMachine::take(Handshake::Step step) {
  if (step == Handshake::Step::kFailed) return shut(handshake_.why());
  if (step != Handshake::Step::kReady) {
    greeting_ = handshake_.output();
    return;
  }
  phase_ = Phase::kReady;
  pipeline_.open();
}

LinkAction LinkMachine::answer_commands() {
  const LinkAction action = pipeline_.next(reader_);
  if (action.kind != Kind::kClose) return action;
  shut(shown(action.answer.text));
  return next();
}

void LinkMachine::take_output(std::string& bytes) {
  if (greeting_.empty()) return pipeline_.take_output(bytes);
  bytes.clear();
  bytes.swap(greeting_);
  greeting_unsent_ += bytes.size();
}

// --- Link -------------------------------------------------------------------------------------

LinkOwner::LinkOwner(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                     StoreObserver* observer)
    : loop_(std::move(loop)), target_(std::move(target)), observer_(observer) {}

void LinkOwner::emit(StoreEventKind kind, std::string_view endpoint,
                     std::string_view why) noexcept {
  if (observer_ != nullptr) observer_->on({.kind = kind, .endpoint = endpoint, .why = why});
}

void LinkOwner::refuse(Command& command, std::string_view why) noexcept {
  LinkCounters::add(counters_.errors, 1);
  command.done({.failure = Failure::kUnavailable, .text = why});
}

std::shared_ptr<Link> Link::connect(LinkOwner& owner, ServerAddress address, LinkOptions options,
                                    LinkCounters& counters) {
  const auto timeout = std::chrono::duration_cast<milliseconds>(options.connect_timeout);
  const std::shared_ptr<Link> link(
      new Link(owner, std::move(address), std::move(options), counters));
  link->transport_->connect(timeout);
  // The transport may use the link's buffer after the owner has released it.
  return {link.get(), [link](Link*) { link->close(); }};
}

Link::Link(LinkOwner& owner, ServerAddress address, LinkOptions options, LinkCounters& counters)
    : loop_(*owner.loop_),
      address_(std::move(address)),
      owner_(&owner),
      counters_(counters),
      machine_(std::move(options)),
      timer_(loop_.make_timer([this] { on_timer(); })),
      transport_(loop_.make_transport(address_, *this)) {}

// --- events -----------------------------------------------------------------------------------

// NOLINTNEXTLINE(bugprone-exception-escape)
void Link::submit(Command& command, Time now, bool asking) noexcept {
  LinkCounters::add(counters_.pending, 1);
  const std::string_view refusal = machine_.submit(command, asking, now);
  if (!refusal.empty()) {
    return finish(command, {.failure = Failure::kUnavailable, .text = refusal});
  }
  LinkCounters::add(counters_.requests, 1);
  settle();
}

// NOLINTNEXTLINE(bugprone-exception-escape): as submit()
void Link::close() noexcept {
  owner_ = nullptr;
  machine_.on_closed("the connection is closed");
  execute();
}

void Link::on_connected() {
  machine_.on_connected(loop_.now());
  execute();
}

void Link::on_input(std::size_t bytes) {
  machine_.on_input(bytes, loop_.now());
  execute();
}

void Link::on_output(std::size_t bytes) {
  machine_.on_output(bytes);
  settle();
}

void Link::on_closed(const std::string& why) {
  machine_.on_closed(why);
  execute();
}

void Link::on_timer() {
  timer_at_ = Time::max();
  machine_.on_timer(loop_.now());
  execute();
}

// --- actions ----------------------------------------------------------------------------------

void Link::execute() {
  const auto kept = shared_from_this();  // the owner may release the link
  for (;;) {
    const LinkAction action = machine_.next();
    switch (action.kind) {
      case LinkAction::Kind::kNothing: return settle();
      case LinkAction::Kind::kReady: on_ready(); break;
      case LinkAction::Kind::kFinish: finish(*action.command, action.answer); break;
      case LinkAction::Kind::kError: on_server_error(action); break;
      case LinkAction::Kind::kScriptSent:
        LinkCounters::add(counters_.scripts_sent, 1);
        owner_->emit(StoreEventKind::kScriptLoaded, address_.to_string(),
                     action.command->script->name);
        break;
      case LinkAction::Kind::kClose: close_socket(); break;
      case LinkAction::Kind::kEnded:
        if (owner_ != nullptr) owner_->on_ended(*this, machine_.why(), machine_.was_ready());
        return;
    }
  }
}

void Link::on_ready() {
  LinkCounters::add(counters_.connects, 1);
  LinkCounters::add(counters_.connected, 1);
  owner_->on_ready(*this);
}

void Link::on_server_error(const LinkAction& action) {
  if (!owner_->on_error(*this, *action.command, action.answer.text)) {
    return finish(*action.command, action.answer);
  }
  LinkCounters::add(counters_.pending, ~std::size_t{0});
}

void Link::finish(Command& command, const Answer& answer) noexcept {
  LinkCounters::add(counters_.pending, ~std::size_t{0});
  if (answer.failure == Failure::kTimeout) {
    LinkCounters::add(counters_.timeouts, 1);
  } else if (answer.failure != Failure::kNone) {
    LinkCounters::add(counters_.errors, 1);
  }
  command.done(answer);
}

void Link::close_socket() noexcept {
  if (machine_.was_ready()) LinkCounters::add(counters_.connected, ~std::size_t{0});
  timer_->stop();
  transport_->close();
}

void Link::settle() {
  if (machine_.wake_at() < timer_at_) {
    timer_at_ = machine_.wake_at();
    timer_->set(timer_at_);
  }
  if (machine_.has_output()) transport_->flush();
}

}  // namespace sluice::redis
