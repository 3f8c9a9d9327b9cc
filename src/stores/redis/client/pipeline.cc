// The pending requests of one connection. A request is sent again only if the server says that it
// did nothing (NOSCRIPT, MOVED, ASK, …); without an answer it may have counted the request. Once
// per connection the pipeline asks whether the server has Sluice's module, whose commands then
// replace the scripts.
#include "stores/redis/client/pipeline.h"

#include <algorithm>
#include <cstring>

#include "base/quoted.h"

namespace sluice::redis {
namespace {

constexpr std::size_t kFirstCapacity = 16 << 10;
// Releases a larger buffer or arena after a large reply.
constexpr std::size_t kKeptCapacity = 1 << 20;
constexpr std::size_t kFirstNodes = 16;
constexpr std::size_t kKeptNodes = 16 << 10;
constexpr std::string_view kTypes = "+-:$*_#,(!=%~>|";
constexpr std::string_view kBulks = "$=!";
constexpr std::string_view kAggregates = "*%~>|";

// A loop: a call of memchr() takes longer for so few.
bool holds(std::string_view set, char c) noexcept {
  return std::find(set.begin(), set.end(), c) != set.end();
}

bool is_decimal(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return base::is_digit(c) || holds("+-.eEinfa", c);
  });
}

bool set_text(Reply& node, Reply::Type type, std::string_view text) noexcept {
  node.type = type;
  node.text = text;
  return true;
}

}  // namespace

std::span<char> ReplyReader::prepare(std::size_t at_least) {
  start_over();
  const std::size_t kept = end_ - begin_;
  if (kept == 0 && capacity_ > kKeptCapacity) {
    data_.reset();
    capacity_ = 0;
  }
  if (kept + at_least > capacity_) {
    const std::size_t capacity = std::max({kFirstCapacity, capacity_ * 2, kept + at_least});
    std::unique_ptr<char[]> larger(new char[capacity]);
    if (kept != 0) std::memcpy(larger.get(), data_.get() + begin_, kept);
    data_ = std::move(larger);
    capacity_ = capacity;
    begin_ = 0;
  } else if (kept == 0 || end_ + at_least > capacity_) {
    if (kept != 0) std::memmove(data_.get(), data_.get() + begin_, kept);
    begin_ = 0;
  }
  end_ = begin_ + kept;
  return {data_.get() + end_, capacity_ - end_};
}

void ReplyReader::feed(std::string_view bytes) {
  if (bytes.empty()) return;
  std::memcpy(prepare(bytes.size()).data(), bytes.data(), bytes.size());
  commit(bytes.size());
}

// Forgets the reply that was handed out.
void ReplyReader::start_over() noexcept {
  if (reply_end_ == 0) return;
  begin_ += reply_end_;
  reply_end_ = 0;
  scanned_ = 0;
  searched_ = 0;
  wanted_ = 1;
  elements_ = 1;
}

ReplyReader::Progress ReplyReader::bad(std::string_view why) {
  if (why_.empty()) why_ = why;
  return Progress::kBad;
}

ReplyReader::Progress ReplyReader::next() {
  if (!why_.empty()) return Progress::kBad;
  while (true) {
    start_over();
    if (const Progress found = scan(); found != Progress::kReply) return found;
    make_room();
    reply_end_ = scanned_;
    cursor_ = begin_;
    used_ = 1;
    push_ = false;
    if (!build(nodes_.front(), 0)) return bad("a reply is malformed");
    if (!push_) return Progress::kReply;
  }
}

// Nodes for all elements, before the first of them is pointed to.
void ReplyReader::make_room() {
  const bool too_large = nodes_.size() > kKeptNodes && elements_ <= kKeptNodes;
  if (nodes_.size() >= elements_ && !too_large) return;
  const std::size_t grown = too_large ? kKeptNodes : std::max(kFirstNodes, 2 * nodes_.size());
  nodes_ = std::vector<Reply>(std::max(elements_, grown));
}

ReplyReader::Progress ReplyReader::scan() {
  while (wanted_ > 0) {
    const std::string_view all = unread();
    if (scanned_ >= all.size()) return Progress::kMore;
    const std::string_view rest = all.substr(scanned_);
    if (!holds(kTypes, rest.front())) {
      return bad("the server does not speak the protocol of Redis: it sent " +
                 base::in_quotes(rest.substr(0, 40)));
    }
    const std::size_t line = rest.find("\r\n", searched_);
    if (line == rest.npos) {
      searched_ = rest.size() - 1;
      if (rest.size() <= bounds_.line_bytes + 1) return Progress::kMore;  // perhaps a '\r'
    }
    if (line > bounds_.line_bytes) return bad("a line of a reply is too long");
    scanned_ += line + 2;
    searched_ = 0;
    if (!scan_head(rest.substr(0, line))) return bad("a reply is malformed");
    if (scanned_ > bounds_.reply_bytes) return bad("a reply is too large");
  }
  return scanned_ <= unread().size() ? Progress::kReply : Progress::kMore;
}

bool ReplyReader::scan_head(std::string_view head) {
  const char type = head.front();
  if (!holds(kBulks, type) && !holds(kAggregates, type)) {
    --wanted_;
    return true;
  }
  const auto length = base::read_number<std::int64_t>(head.substr(1));
  if (!length) return false;
  if (*length == -1 && (type == '$' || type == '*')) {
    --wanted_;
    return true;
  }
  if (*length < 0) return false;
  return holds(kBulks, type) ? scan_bulk(*length) : scan_aggregate(type, *length);
}

bool ReplyReader::scan_bulk(std::int64_t length) {
  if (static_cast<std::uint64_t>(length) > bounds_.reply_bytes) {
    bad("a reply is too large");
    return false;
  }
  scanned_ += static_cast<std::size_t>(length) + 2;
  --wanted_;
  return true;
}

bool ReplyReader::scan_aggregate(char type, std::int64_t length) {
  const auto count = static_cast<std::uint64_t>(length);
  const std::uint64_t inside = type == '%' || type == '|' ? 2 * count : count;
  if (count > bounds_.elements || elements_ + inside > bounds_.elements) {
    bad("a reply has too many elements");
    return false;
  }
  elements_ += static_cast<std::size_t>(inside);
  wanted_ += inside;
  if (type != '|') --wanted_;  // an attribute precedes an element and does not count
  return true;
}

std::string_view ReplyReader::take_line() noexcept {
  const char* const from = data_.get() + cursor_;
  const std::string_view rest(from, begin_ + reply_end_ - cursor_);
  const std::size_t line = rest.find("\r\n");
  cursor_ += line + 2;
  return {from, line};
}

bool ReplyReader::build(Reply& node, std::size_t depth) {
  if (depth > bounds_.depth) {
    bad("a reply is nested too deeply");
    return false;
  }
  std::string_view line = take_line();
  const auto number = [&line] { return base::read_number<std::int64_t>(line.substr(1)); };
  while (line.front() == '|') {
    const auto pairs = number();
    if (!pairs || !skip_attribute(*pairs, depth)) return false;
    line = take_line();
  }
  node = Reply{};
  const char type = line.front();
  const bool is_bulk = holds(kBulks, type);
  if (!is_bulk && !holds(kAggregates, type)) return build_scalar(node, type, line.substr(1));
  const auto length = number();
  if (!length) return false;
  if (is_bulk) return build_bulk(node, type, *length);
  if (type == '>') {
    if (depth > 0) return false;
    push_ = true;
  }
  return build_aggregate(node, type == '%' ? 2 * *length : *length, depth);
}

bool ReplyReader::skip_attribute(std::int64_t pairs, std::size_t depth) {
  Reply ignored;
  for (std::int64_t i = 0; i < 2 * pairs; ++i) {
    if (!build(ignored, depth + 1)) return false;
  }
  return true;
}

bool ReplyReader::build_scalar(Reply& node, char type, std::string_view text) {
  switch (type) {
    case '+': return set_text(node, Reply::kStatus, text);
    case '-': return set_text(node, Reply::kError, text);
    case ',':
    case '(': return set_text(node, Reply::kString, text) && is_decimal(text);
    case '_': node.type = Reply::kNil; return text.empty();
    case '#':
      node.type = Reply::kInteger;
      node.integer = text == "t" ? 1 : 0;
      return text == "t" || text == "f";
    default:
      node.type = Reply::kInteger;
      const auto number = base::read_number<std::int64_t>(text);
      node.integer = number.value_or(0);
      return number.has_value();
  }
}

bool ReplyReader::build_bulk(Reply& node, char type, std::int64_t length) {
  constexpr std::size_t kFormat = 4;  // "txt:"
  if (length < 0) {
    node.type = Reply::kNil;
    return true;
  }
  std::string_view text(data_.get() + cursor_, static_cast<std::size_t>(length) + 2);
  cursor_ += text.size();
  if (!text.ends_with("\r\n")) return false;
  text.remove_suffix(2);
  if (type == '=') {
    if (text.size() < kFormat || text[kFormat - 1] != ':') return false;
    text = text.substr(kFormat);
  }
  return set_text(node, type == '!' ? Reply::kError : Reply::kString, text);
}

bool ReplyReader::build_aggregate(Reply& node, std::int64_t count, std::size_t depth) {
  if (count < 0) {
    node.type = Reply::kNil;
    return true;
  }
  node.type = Reply::kArray;
  node.count = static_cast<std::size_t>(count);
  Reply* const first = nodes_.data() + used_;
  node.first = first;
  used_ += node.count;
  for (std::size_t i = 0; i < node.count; ++i) {
    if (!build(first[i], depth + 1)) return false;
  }
  return true;
}

namespace {

constexpr std::string_view kUnknownScript = "NOSCRIPT";
constexpr std::string_view kAsking = "*1\r\n$6\r\nASKING\r\n";
constexpr std::string_view kEvalSha = "$7\r\nEVALSHA\r\n";
constexpr std::string_view kEval = "$4\r\nEVAL\r\n";
// Releases a larger buffer, which a burst has needed.
constexpr std::size_t kKeptOutput = 1 << 20;

bool says_unknown_script(const Reply& reply) noexcept {
  return reply.text.starts_with(kUnknownScript);
}

Pipeline::Event broken(std::string_view why) noexcept {
  return {Pipeline::Event::Kind::kBroken, nullptr, {.text = why}};
}

}  // namespace

bool Pipeline::submit(Command& command, bool asking) {
  if (slots_.size() >= max_pending_) return false;
  push({.command = &command,
        .deadline = command.deadline,
        .form = form_of(command),
        .asking = asking});
  return true;
}

Pipeline::Form Pipeline::form_of(const Command& command) noexcept {
  if (command.script == nullptr) return Form::kPlain;
  const bool has_module = module_ == Module::kAsked || module_ == Module::kPresent;
  if (command.keeps_order && has_module) return Form::kText;
  if (!command.has_module_form || module_ == Module::kAsked || module_ == Module::kAbsent) {
    return Form::kHash;
  }
  if (module_ == Module::kUnknown) module_ = Module::kAsked;
  return Form::kModule;
}

bool Pipeline::note_module(const Reply& reply) noexcept {
  const std::string_view text = reply.text;
  const bool is_error = reply.type == Reply::kError;
  const bool is_unknown = is_error && (text.starts_with("ERR ") || text.starts_with("NOPERM "));
  if (is_unknown) module_ = Module::kAbsent;
  // A server looks for the command first: any other error is one of a command that it has.
  if (!is_unknown && module_ == Module::kAsked) module_ = Module::kPresent;
  // A script changes counters that exist even if the memory is full.
  return is_unknown || (is_error && text.starts_with("OOM "));
}

void Pipeline::push(Slot slot) {
  if (live_ == 0) {
    unordered_ = false;
    dead_ = slots_.size();
  } else if (slot.deadline < latest_) {
    unordered_ = true;
  }
  latest_ = live_ == 0 ? slot.deadline : std::max(latest_, slot.deadline);
  ++live_;
  if (open_) write(slot);
  append(slot);
}

void Pipeline::append(const Slot& slot) {
  constexpr std::size_t kFirstSlots = 64;
  if (slots_.full()) slots_.set_capacity(std::max(kFirstSlots, 2 * slots_.capacity()));
  slots_.push_back(slot);
}

Pipeline::Slot Pipeline::take_first() noexcept {
  const Slot slot = slots_.front();
  slots_.pop_front();
  return slot;
}

void Pipeline::open() {
  if (open_) return;
  open_ = true;
  dead_ = 0;
  for (std::size_t left = slots_.size(); left > 0; --left) {
    Slot slot = take_first();
    if (slot.command == nullptr) continue;  // ended while it waited
    write(slot);
    append(slot);
  }
}

void Pipeline::take_output(std::string& bytes) {
  if (bytes.capacity() > kKeptOutput) bytes = std::string();
  bytes.clear();
  bytes.swap(output_);
}

void Pipeline::write(Slot& slot) {
  Command& command = *slot.command;
  const std::size_t before = output_.size();
  slot.begin = written_;
  slot.ignored = slot.asking ? 1 : 0;
  if (slot.asking) output_.append(kAsking);
  if (slot.form == Form::kModule) {
    command.append_for_module(output_);
    written_ += output_.size() - before;
    return;
  }
  if (slot.form == Form::kPlain) {
    append_size('*', command.elements, output_);
  } else {
    append_size('*', command.elements + 2, output_);
    output_.append(slot.form == Form::kText ? kEval : kEvalSha);
    append_element(slot.form == Form::kText ? command.script->text : command.script->sha1, output_);
  }
  output_.append(command.tail);
  written_ += output_.size() - before;
}

Pipeline::Event Pipeline::next(ReplyReader& reader) {
  while (true) {
    const ReplyReader::Progress progress = reader.next();
    if (progress == ReplyReader::Progress::kMore) return {};
    if (progress == ReplyReader::Progress::kBad) return broken(reader.why());
    const Reply& reply = reader.reply();
    const bool error = reply.type == Reply::kError;
    if (!open_ || slots_.empty()) {
      return broken(error ? reply.text : "the server sent a reply without a command");
    }
    if (slots_.front().ignored > 0) {
      --slots_.front().ignored;
      continue;
    }
    Command* const command_in_front = slots_.front().command;
    const bool is_by_module = slots_.front().form == Form::kModule;
    const bool is_refused = is_by_module && note_module(reply);
    if (command_in_front != nullptr) command_in_front->is_by_module = is_by_module;
    if (!error && command_in_front != nullptr && !command_in_front->expects(reply)) {
      return broken("the server sent a reply that does not fit its command");
    }
    Slot slot = take_first();
    ++first_;
    if (dead_ > 0) --dead_;
    if (slot.command == nullptr) continue;
    --live_;
    Command* const command = slot.command;
    if (is_refused) {
      slot.form = Form::kHash;
      push(slot);
      continue;
    }
    if (!error) return {Event::Kind::kFinish, command, {.reply = &reply}};
    if (slot.form == Form::kPlain || slot.form == Form::kModule || slot.form == Form::kText ||
        !says_unknown_script(reply)) {
      return {Event::Kind::kFinish, command, {Failure::kError, reply.text, &reply}};
    }
    if (send_anew(slot)) return {Event::Kind::kScriptSent, command};
  }
}

bool Pipeline::send_anew(Slot slot) {
  const Script* const script = slot.command->script;
  const bool hash = slot.form == Form::kHash && text_is_under_way(script);
  slot.form = hash ? Form::kHashAgain : Form::kText;
  if (!hash) texts_[script] = first_ + slots_.size();
  push(slot);
  return !hash;
}

bool Pipeline::text_is_under_way(const Script* script) const noexcept {
  const auto found = texts_.find(script);
  return found != texts_.end() && found->second >= first_;
}

void Pipeline::expire(Time now, std::vector<Event>& ended) {
  const Answer sent{Failure::kTimeout, "no answer by the deadline", nullptr};
  const Answer unsent{Failure::kUnavailable, "not sent by the deadline", nullptr};
  for (std::size_t i = dead_; i < slots_.size() && live_ > 0; ++i) {
    Slot& slot = slots_[i];
    const bool due = slot.command != nullptr && slot.deadline <= now;
    if (due) {
      // If it is open, the bytes will leave.
      ended.push_back({Event::Kind::kFinish, slot.command, open_ ? sent : unsent});
      slot.command = nullptr;
      --live_;
    }
    if (slot.command == nullptr && i == dead_) ++dead_;
    if (slot.command != nullptr && !due && !unordered_) break;
  }
}

std::optional<Time> Pipeline::next_deadline() const noexcept {
  std::optional<Time> first;
  for (std::size_t i = dead_; i < slots_.size() && live_ > 0; ++i) {
    const Slot& slot = slots_[i];
    if (slot.command == nullptr) continue;
    if (!first || slot.deadline < *first) first = slot.deadline;
    if (!unordered_) break;
  }
  return first;
}

void Pipeline::abandon(std::string_view why, std::vector<Event>& ended) {
  while (!slots_.empty()) {
    const Slot slot = take_first();
    ++first_;
    if (slot.command == nullptr) continue;
    const Failure failure = was_sent(slot) ? Failure::kLost : Failure::kUnavailable;
    ended.push_back({Event::Kind::kFinish, slot.command, {failure, why, nullptr}});
  }
  live_ = 0;
  dead_ = 0;
  texts_.clear();
  output_.clear();
}

}  // namespace sluice::redis
