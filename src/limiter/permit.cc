#define XXH_INLINE_ALL
#include "limiter/waits.h"

#include <pthread.h>
#include <sys/random.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "limiter/forks.h"
#include "sluice/limiter.h"
#include "sluice/permit.h"
#include "sluice/permit_id.h"

namespace sluice {

std::uint64_t detail::forks() noexcept {
  static std::atomic<std::uint64_t> count{0};
  [[maybe_unused]] static const int handler =
      ::pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  return count.load(std::memory_order_relaxed);
}

namespace {

// Random bytes of the system for the names of one thread: a call of the system for each name takes
// more time than the rest of a permit. After a fork a process does not use those of its parent.
class Source {
 public:
  void take(PermitId::Bytes& out) {
    const std::uint64_t now = detail::forks();
    if (left_ == 0 || forks_ != now) fill(now);
    PermitId::Bytes& next = names_[--left_];
    out = std::exchange(next, {});
  }

 private:
  void fill(std::uint64_t now) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(names_.data());
    for (std::size_t filled = 0; filled < sizeof(names_);) {
      const ssize_t more = ::getrandom(bytes + filled, sizeof(names_) - filled, 0);
      if (more < 0 && errno != EINTR) {
        throw std::system_error(errno, std::generic_category(), "the system has no random bytes");
      }
      filled += static_cast<std::size_t>(std::max<ssize_t>(more, 0));
    }
    left_ = names_.size();
    forks_ = now;
  }

  std::size_t left_ = 0;
  std::uint64_t forks_ = 0;
  std::array<PermitId::Bytes, 85> names_{};
};

}  // namespace

PermitId PermitId::random() {
  static thread_local Source source;
  Bytes bytes;
  source.take(bytes);
  return PermitId(bytes);
}

std::string PermitId::random_text() {
  std::string text;
  for (const std::uint8_t byte : random().bytes()) {
    base::append_lower_hex(text, static_cast<char>(byte));
  }
  return text;
}

PermitId PermitId::named(std::string_view id) noexcept {
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(id.data(), id.size()));
  Bytes bytes;
  std::copy_n(hash.digest, bytes.size(), bytes.begin());
  return PermitId(bytes);
}

// The text is base64url without padding of these bytes; numbers have their lowest byte first:
//   version (1 byte: 1), id (12), number of counters (1), and for each counter:
//   keyspace (1), limit (2), lease in µs (6), size of the key (4), size of the tag (4), key, tag

using detail::HeldPermit;

namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kLimitBytes = 2, kLeaseBytes = 6, kSizeBytes = 4;
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr auto kValues = [] {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}();

// Appends a number, its lowest byte first.
void put_number(std::uint64_t value, std::size_t size, std::string& bytes) {
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Appends bytes in base64url.
void encode(std::string_view bytes, std::string& out) {
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<std::uint8_t>(c);
    for (count += 8; count >= 6; count -= 6) out += kDigits[bits >> (count - 6) & 63];
  }
  if (count > 0) out += kDigits[bits << (6 - count) & 63];
}

// Returns the bytes of a text in base64url. No two texts have the same bytes.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const std::int8_t value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint8_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFF);
  }
  const bool is_whole = count < 6 && (bits & ((1u << count) - 1)) == 0;
  return is_whole ? std::optional(std::move(out)) : std::nullopt;
}

// Reads from the front of bytes. After a read beyond the end, `is_short()`.
class Reader {
 public:
  explicit Reader(std::string_view bytes) noexcept : rest_(bytes) {}

  bool is_short() const noexcept { return is_short_; }
  bool is_at_end() const noexcept { return rest_.empty() && !is_short_; }
  std::string_view text(std::size_t size) noexcept {
    is_short_ = is_short_ || size > rest_.size();
    const std::string_view taken = rest_.substr(0, is_short_ ? 0 : size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::uint64_t number(std::size_t bytes) noexcept {
    const std::string_view taken = text(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = taken.size(); i-- > 0;) {
      value = value << 8 | static_cast<std::uint8_t>(taken[i]);
    }
    return value;
  }

 private:
  std::string_view rest_;
  bool is_short_ = false;
};

std::optional<Charge> read_charge(Reader& in) {
  const std::uint64_t keyspace = in.number(1);
  const std::uint64_t limit = in.number(kLimitBytes);
  const auto lease = static_cast<std::int64_t>(in.number(kLeaseBytes));
  const std::uint64_t key_size = in.number(kSizeBytes);
  const std::uint64_t tag_size = in.number(kSizeBytes);
  const std::string_view key = in.text(key_size);
  const std::string_view tag = in.text(tag_size);
  const auto made =
      Limit::make({.algorithm = Algorithm::kConcurrency, .limit = limit, .per = Duration{lease}});
  if (in.is_short() || keyspace > 1 || !made) return std::nullopt;
  return Charge{.key = key, .limit = *made, .tag = tag, .rule = {static_cast<Keyspace>(keyspace)}};
}

// Returns the charges, which borrow the bytes; none if they are wrong.
std::vector<Charge> read_charges(Reader& in) {
  const std::uint64_t count = in.number(1);
  std::vector<Charge> charges;
  if (count > kMaxCharges) return charges;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto charge = read_charge(in);
    if (!charge) return {};
    charges.push_back(*charge);
  }
  if (!in.is_at_end()) charges.clear();
  return charges;
}

}  // namespace

void PermitText::append(const PermitId& id, std::span<const Charge> charges, std::string& out) {
  const auto count = std::count_if(charges.begin(), charges.end(), HeldPermit::belongs);
  if (count == 0) return;
  std::string bytes;
  put_number(kVersion, 1, bytes);
  for (const std::uint8_t byte : id.bytes()) put_number(byte, 1, bytes);
  put_number(static_cast<std::uint64_t>(count), 1, bytes);
  for (const Charge& charge : charges) {
    if (!HeldPermit::belongs(charge)) continue;
    put_number(static_cast<std::uint64_t>(charge.rule.keyspace), 1, bytes);
    put_number(charge.limit.limit(), kLimitBytes, bytes);
    put_number(static_cast<std::uint64_t>(charge.limit.period().count()), kLeaseBytes, bytes);
    put_number(charge.key.size(), kSizeBytes, bytes);
    put_number(charge.tag.size(), kSizeBytes, bytes);
    bytes.append(charge.key).append(charge.tag);
  }
  encode(bytes, out);
}

Expected<PermitText> PermitText::parse(std::string_view text) {
  const auto bytes = decoded(text);
  if (!bytes) return Unexpected{"not the text of a permit: it is not in base64url"};
  Reader in(*bytes);
  if (in.number(1) != kVersion) {
    return Unexpected{"not the text of a permit, or of one of another version"};
  }
  PermitId::Bytes id{};
  const std::string_view id_bytes = in.text(id.size());
  std::copy(id_bytes.begin(), id_bytes.end(), id.begin());
  const std::vector<Charge> charges = read_charges(in);
  if (charges.empty()) return Unexpected{"not the text of a permit: it is cut off or changed"};
  return PermitText(HeldPermit::make(PermitId(id), charges, charges.size()));
}

PermitText::PermitText(std::unique_ptr<HeldPermit> held) noexcept : held_(std::move(held)) {}
PermitText::~PermitText() = default;
PermitText::PermitText(PermitText&&) noexcept = default;
PermitText& PermitText::operator=(PermitText&&) noexcept = default;

std::span<const Charge> PermitText::charges() const noexcept { return held_->charges(); }

Decision PermitText::release(Store& store, std::optional<Instant> now) const noexcept {
  return held_->apply(Verb::kRelease, store, now);
}

Decision PermitText::extend(Store& store, std::optional<Instant> now) const noexcept {
  return held_->apply(Verb::kExtend, store, now);
}

Permit::Permit(Store& store, std::span<const Charge> charges, std::optional<Instant> now,
               std::optional<Deadline> deadline)
    : held_(HeldPermit::make(PermitId::random(), charges, charges.size() > 1 ? charges.size() : 0)),
      store_(&store) {
  const auto holds = [](const Charge& charge) { return holds_permits(charge.limit.algorithm()); };
  held_->is_single = charges.size() == 1;
  if (std::none_of(charges.begin(), charges.end(), holds)) {
    decision_ = Decision::refused(Reason::kInvalid);
    const std::span<Decision> each = held_->answers();
    std::fill(each.begin(), each.end(), decision_);
    return;
  }
  if (held_->is_single && !deadline) {
    Charge charge = charges.front();
    charge.permit = &held_->id;
    ::new (static_cast<void*>(&decision_)) Decision(store_->apply_one(Verb::kTake, charge, now));
  } else {
    std::vector<Charge> all(charges.begin(), charges.end());
    for (Charge& charge : all) {
      if (holds(charge)) charge.permit = &held_->id;  // that of a budget is its id
    }
    Decision one;
    const std::span<Decision> each = all.size() > 1 ? held_->answers() : std::span(&one, 1);
    decision_ = deadline ? Limiter(*store_).acquire(all, each, *deadline)
                         : store_->apply(Verb::kTake, all, now, each);
  }
  held_->is_live = decision_.allowed() && held_->charge_count > 0;
}

Permit::Permit(Permit&&) noexcept = default;

Permit& Permit::operator=(Permit&& other) noexcept {
  release();
  held_ = std::move(other.held_);
  store_ = other.store_;
  decision_ = other.decision_;
  return *this;
}

Permit::~Permit() { release(); }

std::span<const Decision> Permit::each() const noexcept {
  if (!held_) return {};
  return held_->is_single ? std::span(&decision_, 1) : held_->answers();
}

Decision Permit::release(std::optional<Instant> now) noexcept {
  if (!held_ || !std::exchange(held_->is_live, false)) return Decision::refused(Reason::kGone);
  return held_->apply(Verb::kRelease, *store_, now);
}

Decision Permit::extend(std::optional<Instant> now) noexcept {
  if (!held_ || !held_->is_live) return Decision::refused(Reason::kGone);
  return held_->apply(Verb::kExtend, *store_, now);
}

std::string Permit::text() const {
  std::string out;
  if (held_ && held_->is_live) PermitText::append(held_->id, held_->charges(), out);
  return out;
}

std::string Permit::detach() {
  std::string out = text();
  if (held_) held_->is_live = false;
  return out;
}

Permit Limiter::hold(std::string_view key, const Limit& limit, std::uint64_t cost,
                     std::optional<Instant> now) {
  const Charge charge{key, limit, cost};
  return {*store_, {&charge, 1}, now};
}

Permit Limiter::hold(std::span<const Charge> charges, std::optional<Instant> now) {
  return {*store_, charges, now};
}

Permit Limiter::hold(std::string_view key, const Limit& limit, std::uint64_t cost,
                     Deadline deadline) {
  const Charge charge{key, limit, cost};
  return {*store_, {&charge, 1}, {}, deadline};
}

Decision Limiter::release(std::string_view permit, std::optional<Instant> now) {
  const auto parsed = PermitText::parse(permit);
  return parsed ? parsed->release(*store_, now) : Decision::refused(Reason::kInvalid);
}

Decision Limiter::extend(std::string_view permit, std::optional<Instant> now) {
  const auto parsed = PermitText::parse(permit);
  return parsed ? parsed->extend(*store_, now) : Decision::refused(Reason::kInvalid);
}

}  // namespace sluice
