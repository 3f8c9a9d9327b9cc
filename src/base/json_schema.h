#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/json_writer.h"

// The tables of a JSON reader as a JSON Schema (draft 2020-12).
namespace sluice::base {

// The objects and arrays around a value: the tables of objects, and the rows of the elements of
// arrays.
using JsonSchemaPath = std::vector<const void*>;

template <typename Document>
void write_json_schema(JsonWriter& json, const JsonMember<Document>& of, JsonSchemaPath path = {});

// Writes the members that an object may have. What contains itself is written once.
template <typename Document>
void write_json_members(JsonWriter& json, const JsonObject<Document>& object, JsonSchemaPath path) {
  if (std::find(path.begin(), path.end(), &object) != path.end()) return;
  path.push_back(&object);
  const auto others = std::find_if(object.members.begin(), object.members.end(),
                                   [](const auto& member) { return member.name.empty(); });
  if (others != object.members.begin()) json.key("properties").begin_object();
  for (auto member = object.members.begin(); member != others; ++member) {
    write_json_schema(json.key(member->name), *member, path);
  }
  if (others != object.members.begin()) json.end_object();
  json.key("additionalProperties");
  if (others != object.members.end()) {
    write_json_schema(json, *others, path);
  } else {
    json.value(false);
  }
  if (object.required == 0) return;
  json.key("required").begin_array();
  for (const JsonMember<Document>& member : object.members) {
    if (member.required) json.value(member.name);
  }
  json.end_array();
}

// Writes the schema of a row. It allows every document that the reader takes, and more: what the
// functions of the table check is not in it.
template <typename Document>
void write_json_schema(JsonWriter& json, const JsonMember<Document>& of, JsonSchemaPath path) {
  constexpr std::array<std::pair<unsigned, std::string_view>, 7> kTypes{
      {{kJsonText, "string"},
       {kJsonNumber, "number"},
       {kJsonWhole, "integer"},
       {kJsonTrue | kJsonFalse, "boolean"},
       {kJsonNull, "null"},
       {kJsonObject, "object"},
       {kJsonArray, "array"}}};
  json.begin_object();
  if (of.expected.starts_with("expected ")) json.member("description", of.expected.substr(9));
  if (of.kinds == kJsonTrue) {
    json.member("const", true);
  } else {
    const auto has = [&](const auto& type) { return (of.kinds & type.first) != 0; };
    const bool is_list = std::count_if(kTypes.begin(), kTypes.end(), has) > 1;
    json.key("type");
    if (is_list) json.begin_array();
    for (const auto& type : kTypes) {
      if (has(type)) json.value(type.second);
    }
    if (is_list) json.end_array();
  }
  if ((of.kinds & kJsonWhole) != 0) {
    constexpr std::uint64_t kAny = std::numeric_limits<std::int64_t>::max();
    json.member("minimum", std::uint64_t{0});
    if (of.most < kAny) json.member("maximum", of.most);
  }
  if (!of.one_of.empty()) {
    json.array("enum", of.one_of);
  }
  if (of.object != nullptr) write_json_members(json, *of.object, path);
  if (of.each != nullptr && std::find(path.begin(), path.end(), of.each) == path.end()) {
    path.push_back(of.each);
    write_json_schema(json.key("items"), *of.each, std::move(path));
  }
  json.end_object();
}

}  // namespace sluice::base
