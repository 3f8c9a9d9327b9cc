#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "sluice/permit.h"
#include "sluice/store.h"

namespace {

// Writes again what a text names.
class Recorder final : public sluice::Store {
 public:
  std::string text;

  sluice::Decision apply(sluice::Action, std::span<const sluice::Charge> charges,
                         std::optional<sluice::Instant>,
                         std::span<sluice::Decision> each) noexcept override {
    if (each.size() != charges.size() || charges.empty()) std::abort();
    if (charges.size() > sluice::kMaxCharges) std::abort();
    for (const sluice::Charge& charge : charges) {
      if (charge.permit == nullptr || *charge.permit != *charges.front().permit) std::abort();
    }
    sluice::PermitText::append(*charges.front().permit, charges, text);
    return {};
  }
};

}  // namespace

// The input is a text. No two texts are the same permit.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto permit = sluice::PermitText::parse(input);
  if (!permit) {
    if (permit.error().empty()) std::abort();
    return 0;
  }
  Recorder store;
  permit->release(store);
  if (store.text != input) std::abort();
  return 0;
}
