#include "stores/redis/script/scripts.h"

#include <openssl/evp.h>

#include <array>
#include <bit>
#include <mutex>
#include <string>

#include "stores/redis/script/lua.h"
#include "stores/redis/script/lua_text.h"

namespace sluice::redis {
namespace {

constexpr unsigned kSets = 1u << kFamilies;

// A piece of Lua, and the families that need it.
struct Piece {
  std::string_view text;
  Families families;
};

constexpr Families set_of(std::initializer_list<Family> families) {
  Families set = 0;
  for (const Family family : families) set = static_cast<Families>(set | bit_of(family));
  return set;
}
constexpr Families kAll = kSets - 1;
constexpr Families kWide =
    set_of({Family::kBucket, Family::kSlidingWindowCounter, Family::kSlidingWindowHybrid});
constexpr Families kSliced = set_of({Family::kSlidingWindowCounter, Family::kSlidingWindowHybrid});
constexpr Families kAnyLog = set_of({Family::kSlidingWindowLog, Family::kSlidingWindowHybrid});

// A script creates its functions at each call. The many functions for logs are inside another
// function, so they are created only when it is called.
constexpr std::string_view kAnyLogBegins = "local function any_log(key, arg, now, verb, state)\n";
constexpr std::string_view kAnyLogEnds =
    "return window_log(key, arg, now, verb, state)\n"
    "end\n";

// Each piece uses only those before it.
constexpr Piece kPieces[] = {
    {lua::kWithConstants<lua::kForeign>, kAll},
    {lua::kWithConstants<lua::kWide>, kWide},
    {lua::kWithConstants<lua::kSlices>, kSliced},
    {kAnyLogBegins, kAnyLog},
    {lua::kWithConstants<lua::kLogEntries>, kAnyLog},
    {lua::kWithConstants<lua::kLogSummaries>, bit_of(Family::kSlidingWindowHybrid)},
    {lua::kWithConstants<lua::kLogOpen>, kAnyLog},
    {lua::kWithConstants<lua::kLogWrite>, kAnyLog},
    {lua::kWithConstants<lua::kLogChanges>, kAnyLog},
    {lua::kWithConstants<lua::kLogDecide>, kAnyLog},
    {kAnyLogEnds, kAnyLog},
    {lua::kWithConstants<lua::kLogShortTake>, bit_of(Family::kSlidingWindowLog)},
    {lua::kWithConstants<lua::kBucket>, bit_of(Family::kBucket)},
    {lua::kWithConstants<lua::kInterval>, bit_of(Family::kInterval)},
    {lua::kWithConstants<lua::kFixedWindow>, bit_of(Family::kFixedWindow)},
    {lua::kWithConstants<lua::kSlidingWindowCounter>, bit_of(Family::kSlidingWindowCounter)},
};

// The name of a family, and of the function that decides for it.
struct Named {
  std::string_view name;
  std::string_view function;
};
// In the order of the enumerators.
constexpr std::array<Named, kFamilies> kNames = {{
    {"bucket", "bucket"},
    {"interval", "interval"},
    {"fixed_window", "fixed_window"},
    {"sliding_window_counter", "sliding_window_counter"},
    {"sliding_window_log", "short_log"},
    {"sliding_window_hybrid", "any_log"},
}};

std::string list_of(Families families) {
  std::string list;
  for (std::size_t i = 0; i < kFamilies; ++i) {
    if ((families >> i & 1) == 0) continue;
    list.append(list.empty() ? "" : "+").append(kNames[i].name);
  }
  return list;
}

std::string compose(Families families, std::string_view frame) {
  std::string text;
  for (const Piece& piece : kPieces) {
    if ((piece.families & families) != 0) text.append(piece.text).append("\n");
  }
  text += "local decide = {";
  for (std::size_t i = 0; i < kFamilies; ++i) {
    if ((families >> i & 1) != 0) text.append(kNames[i].function).append(", ");
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

// Scripts with one frame. Each is composed at its first use.
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
  static Table table("single", lua::kWithConstants<lua::kSingle>);
  return table[bit_of(family)];
}

const Script& script_for(Families families) {
  static Table table("request", lua::kWithConstants<lua::kRequest>);
  return table[families];
}

}  // namespace sluice::redis
