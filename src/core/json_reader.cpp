#include "core/json_reader.h"

#include "core/error.h"
#include "core/printable.h"

#include <nlohmann/json.hpp>

#include <utility>
#include <vector>

namespace ddp {
namespace {

using nlohmann::json;

// Builds the value. nlohmann's own parser has no limits and keeps the last of two equal names. Its callback could
// refuse them, but visits all earlier names at each end of an object.
class JsonBuilder final : public nlohmann::json_sax<json> {
 public:
  JsonBuilder(const std::string& subject, const JsonLimits& limits) : subject_(subject), limits_(limits) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [entry, is_new] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    require(is_new, Exit::data, "{} has \"{}\" twice", subject_, shortened(name));
    member_ = &entry->second;
    return true;
  }

  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& e) override {
    constexpr int kOutOfRange = 406;
    require(e.id != kOutOfRange, Exit::data, "{} has an invalid number before byte {}", subject_, byte);
    fail(Exit::data, "{} is not JSON, from byte {} on", subject_, byte);
  }

 private:
  json& place(json&& value) {
    require(++values_ <= limits_.values, Exit::data, "{} has more than {} values", subject_, limits_.values);
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_array()) return open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
    return *member_ = std::move(value);
  }
  bool add(json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(json&& value) {
    require(std::cmp_less(open_.size(), limits_.depth), Exit::data, "{} is nested too deeply, over {} levels", subject_,
            limits_.depth);
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& subject_;
  const JsonLimits& limits_;
  int64_t values_ = 0;
  json root_;
  std::vector<json*> open_;  // the objects and lists that have not ended
  json* member_ = nullptr;   // the place of the next value, where the last of `open_` is an object
};

}  // namespace

json read_json(std::string_view text, const std::string& subject, const JsonLimits& limits) {
  require(std::cmp_less_equal(text.size(), limits.bytes), Exit::data, "{} has {} bytes; it may have {}", subject,
          text.size(), limits.bytes);
  JsonBuilder builder(subject, limits);
  json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace ddp
