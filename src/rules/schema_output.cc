#include <algorithm>
#include <string>
#include <vector>

#include "core/limit.h"
#include "core/period.h"
#include "rules/schema.h"

namespace sluice::rules::schema {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// Names the algorithms that a key applies to; empty if it applies to all.
std::string only_for(const Key& key) {
  if (!key.only_for) return {};
  return " Only for " + core::list_of(core::algorithms_with(*key.only_for), "and") + ".";
}

// Writes JSON, indented by two spaces per level.
class JsonWriter {
 public:
  void open(char bracket) {
    out_ += bracket;
    ++depth_;
    first_ = true;
  }
  void close(char bracket) {
    --depth_;
    new_line();
    out_ += bracket;
    first_ = false;
  }
  // Begins a member of an object; with an empty name, an item of a list.
  void member(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    new_line();
    if (!name.empty()) out_ += json_string(name) + ": ";
  }
  void raw(std::string_view value) { out_ += value; }
  void set(std::string_view name, std::string_view value) {
    member(name);
    raw(value);
  }
  void text(std::string_view name, std::string_view value) { set(name, json_string(value)); }
  void number(std::string_view name, std::uint64_t value) { set(name, std::to_string(value)); }
  std::string take() { return std::move(out_) + '\n'; }

 private:
  void new_line() { out_.append("\n").append(2 * depth_, ' '); }

  std::string out_;
  std::size_t depth_ = 0;
  bool first_ = true;
};

void write_map(JsonWriter& json, const Map& map);

// Removes backquotes, which readers of JSON do not format.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '`') out += c;
  }
  return out;
}

std::string description(const Key& key) {
  std::string out = plain(key.help);
  out += only_for(key);
  if (!key.otherwise.empty()) out += " Default: " + plain(key.otherwise) + ".";
  return out;
}

void write_names(JsonWriter& json, std::string_view name,
                 const std::vector<std::string_view>& values) {
  json.member(name);
  json.raw("[");
  for (std::size_t i = 0; i < values.size(); ++i) {
    json.raw(i > 0 ? ", " : "");
    json.raw(json_string(values[i]));
  }
  json.raw("]");
}

// Attribute values are text, but YAML allows a pattern to be written as a number or a flag.
void write_match(JsonWriter& json) {
  json.set("type", "\"object\"");
  json.member("additionalProperties");
  json.open('{');
  json.set("type", R"(["string", "number", "boolean", "array", "object"])");
  json.set("items", R"({ "type": ["string", "number", "boolean", "object"] })");
  json.number("minItems", 1);
  json.close('}');
}

// Values are text, but YAML allows them to be written as a number or a flag.
void write_headers(JsonWriter& json, const Key& key) {
  json.text("type", "object");
  json.number("maxProperties", 16);
  json.member("additionalProperties");
  json.open('{');
  json.set("type", R"(["string", "number", "boolean"])");
  json.number("maxLength", key.most);
  json.close('}');
}

void write_count(JsonWriter& json) {
  json.set("type", "\"object\"");
  json.number("minProperties", 1);
  json.member("properties");
  json.open('{');
  json.set("on", R"({ "type": ["integer", "string", "array"], "minimum": 100, "maximum": 599, )"
                 R"("items": { "type": ["integer", "string"] } })");
  json.close('}');
  json.set("additionalProperties", R"({ "const": "add" })");
}

void write_cost(JsonWriter& json, const Key& key) {
  json.set("type", R"(["integer", "string"])");
  json.number("minimum", key.least);
  json.number("maximum", key.most);
  json.text("pattern", R"(^(request|\{[^{}]+\})$)");
}

void write_list(JsonWriter& json, const Key& key) {
  json.text("type", "array");
  if (key.least > 0) json.number("minItems", key.least);
  json.number("maxItems", key.most);
  json.member("items");
  json.open('{');
  write_map(json, *key.map);
  json.close('}');
}

void write_plans(JsonWriter& json, const Key& key) {
  for (int depth = 0; depth < 2; ++depth) {
    json.text("type", "object");
    json.member("additionalProperties");
    json.open('{');
  }
  write_map(json, *key.map);
  json.close('}');
  json.close('}');
}

std::string period_pattern(const Key& key) {
  std::string words;
  for (const std::string_view word : key.values) words.append("|").append(word);
  return words.empty() ? "^[0-9]+(ms|s|m|h|d)$" : "^([0-9]+(ms|s|m|h|d)" + words + ")$";
}

void write_type(JsonWriter& json, const Key& key) {
  switch (key.type) {
    case Type::kText:
    case Type::kTemplate:
      json.text("type", "string");
      if (key.least > 0) json.number("minLength", key.least);
      return json.number("maxLength", key.most);
    case Type::kTexts:
      json.set("type", R"(["string", "array"])");
      return json.set("items", R"({ "type": "string" })");
    case Type::kInteger:
      json.text("type", "integer");
      json.number("minimum", key.least);
      return json.number("maximum", key.most);
    case Type::kFlag: return json.text("type", "boolean");
    case Type::kChoice: return write_names(json, "enum", {key.values.begin(), key.values.end()});
    case Type::kPeriod:
      json.text("type", "string");
      return json.text("pattern", period_pattern(key));
    case Type::kPercent:
      json.text("type", "string");
      return json.text("pattern", "^([1-9][0-9]?|100)%$");
    case Type::kDay: return json.set("type", R"(["integer", "string"])");
    case Type::kCost: return write_cost(json, key);
    case Type::kCount: return write_count(json);
    case Type::kMatch: return write_match(json);
    case Type::kHeaders: return write_headers(json, key);
    case Type::kPlans: return write_plans(json, key);
    case Type::kMap: return write_map(json, *key.map);
    case Type::kList: return write_list(json, key);
  }
}

void write_one_of(JsonWriter& json, std::span<const std::string_view> names) {
  json.member("oneOf");
  json.open('[');
  for (const std::string_view name : names) {
    json.member("");
    json.raw("{ \"required\": [" + json_string(name) + "] }");
  }
  json.close(']');
}

void write_map(JsonWriter& json, const Map& map) {
  json.text("type", "object");
  json.set("additionalProperties", "false");
  std::vector<std::string_view> required;
  for (const Key& key : map.keys) {
    if (key.required) required.push_back(key.name);
  }
  if (!required.empty()) write_names(json, "required", required);
  if (!map.one_of.empty()) write_one_of(json, map.one_of);
  json.member("properties");
  json.open('{');
  for (const Key& key : map.keys) {
    json.member(key.name);
    json.open('{');
    json.text("description", description(key));
    write_type(json, key);
    json.close('}');
  }
  json.close('}');
}

std::string value_column(const Key& key) {
  switch (key.type) {
    case Type::kChoice: {
      std::string out;
      for (const std::string_view value : key.values) {
        out.append(out.empty() ? "`" : ", `").append(value).append("`");
      }
      return out;
    }
    case Type::kInteger:
      if (key.least == key.most) return "`" + std::to_string(key.least) + "`";
      return "whole number, " + std::to_string(key.least) + " to " + std::to_string(key.most);
    case Type::kText:
      return key.least == 0 ? "text, at most " + std::to_string(key.most) + " bytes"
                            : "text, " + std::to_string(key.least) + " to " +
                                  std::to_string(key.most) + " bytes";
    case Type::kFlag: return "`true`, `false`";
    case Type::kPeriod:
      if (!key.values.empty()) return "period, such as `60s`, or a word";
      return key.most == 0 ? "period, such as `60s`"
                           : "period, " + core::format_period(milliseconds(key.least)) + " to " +
                                 core::format_period(milliseconds(key.most));
    case Type::kPercent: return "percentage, such as `80%`";
    case Type::kDay: return "day, such as `15`";
    case Type::kTexts: return "text, or list of texts";
    case Type::kTemplate: return "template, at most " + std::to_string(key.most) + " bytes";
    case Type::kCost:
      return "whole number, " + std::to_string(key.least) + " to " + std::to_string(key.most) +
             ", `request`, or attribute";
    case Type::kCount: return "map of `on` to statuses, and of attributes to `add`";
    case Type::kMatch: return "map of attribute to pattern, or list of patterns; `not`";
    case Type::kHeaders: return "map of header to text";
    case Type::kPlans: return "map of plan to map of limit to numbers";
    case Type::kMap: return "map";
    case Type::kList:
      return "list of " + std::to_string(key.least) + " to " + std::to_string(key.most);
  }
  return {};
}

// Writes the table of a map and of those below it, each map once.
void write_table(std::string& out, const Map& map, std::vector<const Map*>& written) {
  if (std::find(written.begin(), written.end(), &map) != written.end()) return;
  written.push_back(&map);
  out.append("### ").append(map.name).append("\n\nThe keys of ").append(map.where).append(".\n\n");
  out += "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : map.keys) {
    out.append("| `").append(key.name).append("` | ").append(value_column(key)).append(" | ");
    out.append(key.required ? "**required**" : key.otherwise).append(" | ").append(key.help);
    out.append(only_for(key)).append(" |\n");
  }
  out += "\n";
  for (const Key& key : map.keys) {
    if (key.map != nullptr) write_table(out, *key.map, written);
  }
}

}  // namespace

std::string json_schema(const Map& file, std::string_view title) {
  JsonWriter json;
  json.open('{');
  json.text("$schema", "https://json-schema.org/draft/2020-12/schema");
  json.text("title", title);
  write_map(json, file);
  json.close('}');
  return json.take();
}

std::string json_schema() { return json_schema(file(), "Rules of Sluice"); }

std::string reference(const Map& file) {
  std::string out;
  std::vector<const Map*> written;
  write_table(out, file, written);
  out.pop_back();
  return out;
}

}  // namespace sluice::rules::schema
