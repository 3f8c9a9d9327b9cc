#include "stores/redis/script/scripts.h"

#include <openssl/evp.h>

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "stores/redis/script/lua.h"
#include "stores/redis/script/lua_text.h"

namespace sluice::redis {
namespace {

// The number of sets, the empty one included.
std::size_t set_count() noexcept { return std::size_t{1} << families().size(); }

std::string list_of(FamilySet set) {
  std::string list;
  for (const Family& family : families()) {
    if ((set & bit_of(family)) == 0) continue;
    list.append(list.empty() ? "" : "+").append(family.name);
  }
  return list;
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
  Table(std::string_view name, std::string_view Family::* short_way, std::string_view frame)
      : name_(name), short_way_(short_way), frame_(frame) {}

  const Script& operator[](FamilySet set) {
    Entry& entry = entries_[set];
    std::call_once(entry.once, [&] {
      for (const Family& family : families()) {
        if (set == bit_of(family)) entry.text = family.*short_way_;
      }
      append_functions(set, entry.text);
      entry.text += frame_;
      entry.sha1 = sha1_of(entry.text);
      entry.name = std::string(name_) + ":" + list_of(set);
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
  std::string_view Family::* short_way_;
  std::string_view frame_;
  std::vector<Entry> entries_{set_count()};
};

}  // namespace

const Script& script_for_one(const Family& family) {
  static Table table("single", &Family::short_single, lua::kWithConstants<lua::kSingle>);
  return table[bit_of(family)];
}

const Script& script_for(FamilySet set) {
  static Table table("request", &Family::short_request, lua::kWithConstants<lua::kRequest>);
  return table[set];
}

std::span<const Script> scripts() {
  static const std::vector<Script> all = [] {
    std::vector<Script> made;
    made.reserve(families().size() + set_count() - 1);
    for (const Family& family : families()) made.push_back(script_for_one(family));
    for (std::size_t set = 1; set < set_count(); ++set) {
      made.push_back(script_for(static_cast<FamilySet>(set)));
    }
    return made;
  }();
  return all;
}

}  // namespace sluice::redis
