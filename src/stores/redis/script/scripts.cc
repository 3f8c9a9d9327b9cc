#include "stores/redis/script/scripts.h"

#include <openssl/evp.h>

#include <array>
#include <bit>
#include <mutex>
#include <string>

#include "stores/redis/script/lua.h"

namespace sluice::redis {
namespace {

constexpr unsigned kSets = 1u << kFamilies;

// A piece of Lua, and the families that need it.
struct Piece {
  std::string_view text;
  Families families;
};

constexpr Families kOnlyBucket = bit_of(Family::kBucket);
constexpr Families kOnlyCounter = bit_of(Family::kSlidingWindowCounter);
constexpr Families kOnlyHybrid = bit_of(Family::kSlidingWindowHybrid);
constexpr Families kAnyLog = static_cast<Families>(bit_of(Family::kSlidingWindowLog) | kOnlyHybrid);

// The functions for logs are many, and made at each call: inside of one, they are made only when it
// is called.
constexpr std::string_view kAnyLogBegins = "local function any_log(key, arg, now, verb, value)\n";
constexpr std::string_view kAnyLogEnds =
    "return window_log(key, arg, now, verb, value)\n"
    "end\n";

// In an order in which each piece finds those that it uses.
constexpr std::array<Piece, 13> kPieces = {{
    {lua::kForeign, static_cast<Families>(kSets - 1)},
    {lua::kWide, static_cast<Families>(kOnlyBucket | kOnlyCounter | kOnlyHybrid)},
    {lua::kSlice, static_cast<Families>(kOnlyCounter | kOnlyHybrid)},
    {kAnyLogBegins, kAnyLog},
    {lua::kEntries, kAnyLog},
    {lua::kSummaries, kOnlyHybrid},
    {lua::kWindowLog, kAnyLog},
    {kAnyLogEnds, kAnyLog},
    {lua::kShortLog, bit_of(Family::kSlidingWindowLog)},
    {lua::kBucket, kOnlyBucket},
    {lua::kInterval, bit_of(Family::kInterval)},
    {lua::kFixedWindow, bit_of(Family::kFixedWindow)},
    {lua::kSlidingWindowCounter, kOnlyCounter},
}};

constexpr std::array<std::string_view, kFamilies> kLooks = {
    "bucket", "interval", "fixed_window", "sliding_window_counter", "short_log", "any_log"};
constexpr std::array<std::string_view, kFamilies> kNames = {"bucket",
                                                            "interval",
                                                            "fixed_window",
                                                            "sliding_window_counter",
                                                            "sliding_window_log",
                                                            "sliding_window_hybrid"};

std::string list_of(Families families) {
  std::string list;
  for (std::size_t i = 0; i < kFamilies; ++i) {
    if ((families >> i & 1) == 0) continue;
    list.append(list.empty() ? "" : "+").append(kNames[i]);
  }
  return list;
}

std::string compose(Families families, std::string_view frame) {
  std::string text;
  for (const Piece& piece : kPieces) {
    if ((piece.families & families) != 0) text.append(piece.text).append("\n");
  }
  text += "local look = {";
  for (int i = 0; i < kFamilies; ++i) {
    if ((families >> i & 1) != 0) text.append(kLooks[static_cast<std::size_t>(i)]).append(", ");
  }
  text += "}\nlocal reads_whole = ";
  return text.append((families & kAnyLog) == 0 ? "true\n" : "false\n").append(frame);
}

std::string sha1_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

// Scripts with one frame, each put together when first asked for.
class Table {
 public:
  Table(std::string_view name, std::string_view frame) : name_(name), frame_(frame) {}

  const Script& operator[](Families families) {
    Entry& entry = entries_[families];
    std::call_once(entry.once, [&] {
      entry.text = compose(families, frame_);
      entry.sha1 = sha1_of(entry.text);
      entry.name = std::string(name_) + ":" + list_of(families);
      entry.script = {.name = entry.name, .text = entry.text, .sha1 = entry.sha1};
    });
    return entry.script;
  }

 private:
  struct Entry {
    std::once_flag once;
    std::string name;
    std::string text;
    std::string sha1;
    Script script;
  };
  std::string_view name_;
  std::string_view frame_;
  std::array<Entry, kSets> entries_;
};

}  // namespace

int number_of(Family family, Families families) noexcept {
  const unsigned below = bit_of(family) - 1u;
  return std::popcount(families & below) + 1;
}

const Script& script_for_one(Family family) {
  static Table table("single", lua::kSingle);
  return table[bit_of(family)];
}

const Script& script_for(Families families) {
  static Table table("request", lua::kRequest);
  return table[families];
}

}  // namespace sluice::redis
