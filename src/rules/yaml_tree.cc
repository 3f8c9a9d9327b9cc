#include "rules/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <unordered_set>

namespace sluice::rules {
namespace {

// Ends the reading of a file after its error was reported.
struct Stop {};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(Diagnostics& diagnostics, Document& document, std::size_t max_depth)
      : diagnostics_(diagnostics), document_(document), max_depth_(max_depth) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (document_.root == nullptr) return;
    diagnostics_.add(at(mark), "a second document",
                     "expected one document in a file, without '---'");
    throw Stop{};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    attach(make(Node::Kind::kNull, place_of_nothing(at(mark)), anchor));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node* node = anchor < anchors_.size() ? anchors_[anchor] : nullptr;
    if (node == nullptr || !node->complete) {
      diagnostics_.add(at(mark), "an alias to a value that is not complete",
                       "expected an alias to a value that ends before it");
      throw Stop{};
    }
    attach(node);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    Node* node = make(Node::Kind::kScalar, at(mark), anchor);
    node->quoted = tag == "!";
    node->text = value;
    attach(node);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(Node::Kind::kSequence, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(Node::Kind::kMap, mark, tag, anchor, style);
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or a map that is being read.
  struct Frame {
    Node* node;
    const Node* key = nullptr;  // of a map: the key whose value comes next
    bool drop = false;          // that key is invalid, so its value is dropped
    std::unordered_set<std::string_view> keys = {};
  };

  static std::size_t at(const YAML::Mark& mark) {
    return mark.pos < 0 ? 0 : static_cast<std::size_t>(mark.pos);
  }

  // For an empty value the parser reports the position of the next token. If that is on a later
  // line, it is far from the '-' that the value belongs to.
  std::size_t place_of_nothing(std::size_t next) const {
    const std::string_view before = diagnostics_.text().substr(0, next);
    const std::size_t last = before.find_last_not_of(" \t\r\n");
    if (last == before.npos || before.find('\n', last) == before.npos) return next;
    return last;
  }

  Node* make(Node::Kind kind, std::size_t where, YAML::anchor_t anchor) {
    Node& node = document_.nodes.emplace_back();
    node.kind = kind;
    node.at = where;
    if (anchor != 0) {
      if (anchors_.size() <= anchor) anchors_.resize(anchor + 1);
      anchors_[anchor] = &node;
    }
    return &node;
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    diagnostics_.add(at(mark), "the tag " + in_quotes(tag), "expected a value without a tag");
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    refuse_tag(mark, tag);
    if (frames_.size() >= max_depth_) {
      diagnostics_.add(at(mark), "nested too deeply",
                       "expected at most " + std::to_string(max_depth_) + " levels");
      throw Stop{};
    }
    Node* node = make(kind, at(mark), anchor);
    node->flow = style == YAML::EmitterStyle::Flow;
    node->complete = false;
    attach(node);
    frames_.push_back({node});
  }

  void close() {
    Node* node = frames_.back().node;
    frames_.pop_back();
    node->complete = true;
    if (!frames_.empty()) weigh(*frames_.back().node, node->weight, node->at);
  }

  void attach(Node* node) {
    if (frames_.empty()) {
      document_.root = node;
      return;
    }
    Frame& frame = frames_.back();
    if (node->complete) weigh(*frame.node, node->weight, node->at);
    if (frame.node->is_sequence()) {
      frame.node->items.push_back(node);
    } else if (frame.key == nullptr) {
      take_key(frame, node);
    } else {
      if (node->kind == Node::Kind::kNull) node->at = frame.key->at;
      if (!frame.drop) frame.node->pairs.emplace_back(frame.key, node);
      frame.key = nullptr;
    }
  }

  void take_key(Frame& frame, const Node* node) {
    frame.key = node;
    frame.drop = !node->is_scalar();
    if (frame.drop) {
      diagnostics_.add(node->at, "a key that is not text", "expected 'key: value'");
    } else if (!frame.keys.insert(node->text).second) {
      frame.drop = true;
      diagnostics_.add(node->at, "duplicate key " + in_quotes(node->text),
                       "expected each key once in a map");
    }
  }

  // Aliases of aliases double the work of a reader each time, so their sum is bounded during
  // reading.
  void weigh(Node& parent, std::size_t weight, std::size_t where) {
    parent.weight += weight;
    if (parent.weight <= kMaxNodes) return;
    diagnostics_.add(where, "too many values (aliases count as their values)",
                     "expected at most " + std::to_string(kMaxNodes));
    throw Stop{};
  }

  Diagnostics& diagnostics_;
  Document& document_;
  const std::size_t max_depth_;
  std::vector<Frame> frames_;
  std::vector<Node*> anchors_;
};

// Checks whether the text can be read at all. The parser takes the control byte 4 for the end of
// the text, and counts only line feeds as line ends.
bool check_text(Diagnostics& diagnostics) {
  const std::string_view text = diagnostics.text();
  if (text.size() > kMaxFileBytes) {
    diagnostics.add(0, "the file has over 4 MiB", "expected at most 4194304 bytes");
    return false;
  }
  if (const std::size_t at = find_invalid_utf8(text); at != text.npos) {
    diagnostics.add(at, "not UTF-8: the byte " + in_quotes(text.substr(at, 1)),
                    "expected UTF-8 text");
    return false;
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte >= 0x20 && byte != 0x7F) || byte == '\t' || byte == '\n') continue;
    if (byte == '\r' && text.substr(at + 1, 1) == "\n") continue;
    diagnostics.add(at, "a control character, " + in_quotes(text.substr(at, 1)),
                    "expected text; in double quotes it can be written as \\xNN");
    return false;
  }
  return true;
}

// Returns the line of that byte, and the line before, whose end yaml-cpp may miss.
std::string_view line_and_one_before(std::string_view text, std::size_t at) {
  const auto begin_of_line = [&](std::size_t end) {
    const std::size_t newline = text.substr(0, end).rfind('\n');
    return newline == text.npos ? 0 : newline + 1;
  };
  std::size_t begin = begin_of_line(at);
  if (begin > 0) begin = begin_of_line(begin - 1);
  return text.substr(begin, text.find('\n', at) - begin);
}

// Whether one of these lines is indented with a tab, as "\tlimit: 1" and "-\tname: api".
bool has_tab_as_indent(std::string_view lines) {
  bool is_indent = true;
  for (const char c : lines) {
    if (is_indent && c == '\t') return true;
    is_indent = c == '\n' || (is_indent && (c == ' ' || c == '-'));
  }
  return false;
}

// Whether the error is at the first word of its line, so that its indentation is wrong.
bool is_at_indent(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::string_view line = before.substr(before.rfind('\n') + 1);
  const std::string_view word = line.substr(std::min(line.find_first_not_of(' '), line.size()));
  return line.size() < before.size() && word.find_first_of(" :\"'{[#") == word.npos;
}

// Says what is expected instead of text that is not YAML.
std::string expected_yaml(std::string_view text, std::size_t at) {
  const std::string_view lines = line_and_one_before(text, at);
  if (has_tab_as_indent(lines)) return "YAML has no tabs there; indent with spaces";
  return std::string("expected valid YAML; ") +
         (is_at_indent(text, at) ? "begin the line in the column of the others in its map or list, "
                                   "or "
                                 : "") +
         "put quotes around text that begins with one of { [ & * ! | > % @ ` "
         "or contains ': ' or ' #'" +
         full_width_hint(lines);
}

void parse(Diagnostics& diagnostics, Document& document, std::size_t max_depth) {
  std::istringstream stream{std::string(diagnostics.text())};
  TreeBuilder builder(diagnostics, document, max_depth);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
    document.root = nullptr;
  } catch (const YAML::Exception& error) {
    document.root = nullptr;
    // yaml-cpp 0.8 adds the name of the anchor.
    const bool unknown = error.msg.starts_with(YAML::ErrorMsg::UNKNOWN_ANCHOR);
    const std::size_t at = error.mark.pos < 0 ? 0 : static_cast<std::size_t>(error.mark.pos);
    diagnostics.add(at, "not YAML: " + error.msg,
                    unknown ? "expected quotes around text that begins with '*'"
                            : expected_yaml(diagnostics.text(), at));
  } catch (const std::exception& error) {
    document.root = nullptr;
    diagnostics.add(0, std::string("the file cannot be read: ") + error.what());
  }
}

std::vector<RuleError> unreadable(const std::string& path, std::string what) {
  return {{path, 1, 1, std::move(what), "expected a file that can be read"}};
}

}  // namespace

Expected<std::string, std::vector<RuleError>> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Unexpected{
        unreadable(path, "the file cannot be opened: " + std::system_category().message(errno))};
  }
  std::string bytes(kMaxFileBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.bad() || (file.fail() && !file.eof())) {
    return Unexpected{unreadable(path, "the file cannot be read")};
  }
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

Document read_yaml(Diagnostics& diagnostics, std::size_t max_depth, std::string_view begins_with) {
  Document document;
  if (!check_text(diagnostics)) return document;
  parse(diagnostics, document, max_depth);
  if (document.root == nullptr && diagnostics.empty()) {
    diagnostics.add(0, "the file is empty",
                    "expected a map that begins with '" + std::string(begins_with) + "'");
  }
  return document;
}

}  // namespace sluice::rules
