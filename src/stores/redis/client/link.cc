// One connection to a Redis server: the handshake (AUTH, HELLO, SELECT, and whether
// the module is there), commands in a pipeline, and the deadlines of each.

#include "stores/redis/client/link.h"

#include <algorithm>
#include <array>
#include <chrono>
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
  append_size('*', elements.size(), output_);
  for (const std::string_view element : elements) append_element(element, output_);
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

using std::chrono::milliseconds;

// How late a deadline may be noticed, so that deadlines close to each other share a timer.
constexpr auto kDeadlineGrain = std::chrono::microseconds{500};

}  // namespace

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

// --- Link -------------------------------------------------------------------------------------

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
      options_(std::move(options)),
      handshake_(options_),
      pipeline_(options_.max_pending),
      timer_(loop_.make_timer([this] { on_timer(); })),
      transport_(loop_.make_transport(address_, *this)) {}

// --- events -----------------------------------------------------------------------------------

// NOLINTNEXTLINE(bugprone-exception-escape)
void Link::submit(Command& command, Time now, bool asking) noexcept {
  LinkCounters::add(counters_.pending, 1);
  const auto refuse = [&](std::string_view why) {
    finish(command, {.failure = Failure::kUnavailable, .text = why});
  };
  if (has_ended()) return refuse("the connection has ended");
  const bool was_idle = pipeline_.in_flight() == 0;
  if (!pipeline_.submit(command, asking)) return refuse("too many requests are pending");
  if (was_idle) last_heard_ = now;
  wake_by(command.deadline);
  LinkCounters::add(counters_.requests, 1);
  flush();
}

// NOLINTNEXTLINE(bugprone-exception-escape): as submit()
void Link::close() noexcept {
  owner_ = nullptr;
  on_closed("the connection is closed");
}

void Link::on_connected() {
  phase_ = Phase::kHandshake;
  last_heard_ = loop_.now();
  wake_by(last_heard_ + options_.connect_timeout);
  take(handshake_.begin());
  execute();
}

void Link::on_input(std::size_t bytes) {
  reader_.commit(bytes);
  last_heard_ = loop_.now();
  execute();
}

void Link::take_output(std::string& bytes) {
  if (greeting_.empty()) return pipeline_.take_output(bytes);
  bytes.clear();
  bytes.swap(greeting_);
  greeting_unsent_ += bytes.size();
}

void Link::on_output(std::size_t bytes) {
  const std::size_t of_greeting = std::min(bytes, greeting_unsent_);
  greeting_unsent_ -= of_greeting;
  pipeline_.handed(bytes - of_greeting);
  flush();
}

void Link::on_closed(const std::string& why) {
  if (!has_ended()) end(why);
  execute();
}

void Link::on_timer() {
  const Time now = loop_.now();
  wake_at_ = Time::max();
  if (has_ended()) return;
  pipeline_.expire(now, ended_);
  Time wake_at = pipeline_.next_deadline().value_or(Time::max());
  Time silent_at = Time::max();
  if (phase_ == Phase::kHandshake) silent_at = last_heard_ + options_.connect_timeout;
  if (pipeline_.in_flight() > 0) silent_at = last_heard_ + options_.longest_silence;
  if (now >= silent_at) {
    const auto silence = std::chrono::duration_cast<milliseconds>(now - last_heard_);
    end("the server has not answered for " + std::to_string(silence.count()) + " ms");
  } else {
    wake_at = std::min(wake_at, silent_at);
    if (wake_at != Time::max()) wake_by(std::max(wake_at, now + kDeadlineGrain));
  }
  execute();
}

void Link::wake_by(Time at) noexcept {
  if (at >= wake_at_) return;
  wake_at_ = at;
  timer_->set(at);
}

void Link::end(std::string_view why) {
  was_ready_ = ready();
  if (was_ready_) LinkCounters::add(counters_.connected, ~std::size_t{0});
  why_ = why;
  phase_ = Phase::kEnding;
  greeting_.clear();
  pipeline_.abandon(why_, ended_);
  timer_->stop();
  transport_->close();
}

// --- actions ----------------------------------------------------------------------------------

void Link::execute() {
  const auto kept = shared_from_this();  // the owner may release the link
  while (execute_next()) {
  }
  flush();
}

// Returns false if there is nothing to do until the next event.
bool Link::execute_next() {
  if (finished_ < ended_.size()) {
    const Pipeline::Event event = ended_[finished_++];
    finish(*event.command, event.answer);
    return true;
  }
  ended_.clear();
  finished_ = 0;
  if (phase_ == Phase::kHandshake) return continue_handshake();
  if (ready()) return answer_command();
  if (phase_ == Phase::kEnding) {
    phase_ = Phase::kEnded;
    if (owner_ != nullptr) owner_->on_ended(*this, why_, was_ready_);
  }
  return false;
}

bool Link::continue_handshake() {
  switch (reader_.next()) {
    case ReplyReader::Progress::kMore: return false;
    case ReplyReader::Progress::kBad: end(reader_.why()); break;
    case ReplyReader::Progress::kReply: take(handshake_.on_reply(reader_.reply())); break;
  }
  return true;
}

void Link::take(Handshake::Step step) {
  if (step == Handshake::Step::kFailed) return end(handshake_.why());
  if (step != Handshake::Step::kReady) {
    greeting_ = handshake_.output();
    return;
  }
  phase_ = Phase::kReady;
  pipeline_.open();
  LinkCounters::add(counters_.connects, 1);
  LinkCounters::add(counters_.connected, 1);
  owner_->on_ready(*this);
}

bool Link::answer_command() {
  const auto [kind, command, answer] = pipeline_.next(reader_);
  switch (kind) {
    case Pipeline::Event::Kind::kNothing: return false;
    case Pipeline::Event::Kind::kBroken: end(shown(answer.text)); break;
    case Pipeline::Event::Kind::kScriptSent:
      LinkCounters::add(counters_.scripts_sent, 1);
      owner_->emit(StoreEventKind::kScriptLoaded, address_.to_string(), command->script->name);
      break;
    case Pipeline::Event::Kind::kFinish:
      if (answer.failure == Failure::kError && owner_->on_error(*this, *command, answer.text)) {
        LinkCounters::add(counters_.pending, ~std::size_t{0});
      } else {
        finish(*command, answer);
      }
  }
  return true;
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

void Link::flush() {
  if (!greeting_.empty() || pipeline_.has_output()) transport_->flush();
}

}  // namespace sluice::redis
