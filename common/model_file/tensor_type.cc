#include "common/model_file/tensor_type.h"

#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr const TypeEntry* kEntries[] = {&kF32Entry,  &kF16Entry,  &kBf16Entry, &kQ4_0Entry, &kQ4_1Entry, &kQ5_0Entry,
                                         &kQ5_1Entry, &kQ8_0Entry, &kQ4_KEntry, &kQ5_KEntry, &kQ6_KEntry};

const TypeEntry* FindEntry(uint32_t number) {
  for (const TypeEntry* entry : kEntries) {
    if (static_cast<uint32_t>(entry->type) == number) return entry;
  }
  return nullptr;
}

const TypeEntry& EntryOf(TensorType type) {
  const TypeEntry* entry = FindEntry(static_cast<uint32_t>(type));
  KV_CHECK(entry != nullptr, "a tensor type without an entry in the table");
  return *entry;
}

}  // namespace

std::optional<TensorType> TensorTypeFromGguf(uint32_t number) {
  const TypeEntry* entry = FindEntry(number);
  if (entry == nullptr) return std::nullopt;
  return entry->type;
}

BlockShape BlockShapeOf(TensorType type) { return EntryOf(type).block; }

std::string_view TensorTypeName(TensorType type) { return EntryOf(type).name; }

std::string TensorTypeNames() {
  return absl::StrJoin(kEntries, ", ", [](std::string* out, const TypeEntry* entry) { out->append(entry->name); });
}

size_t RowBytes(TensorType type, size_t elements) {
  const BlockShape block = EntryOf(type).block;
  KV_CHECK(elements % block.elements == 0, "a row must be whole blocks");
  return elements / block.elements * block.bytes;
}

void DequantizeRow(TensorType type, absl::Span<const std::byte> row, absl::Span<float> out) {
  const TypeEntry& entry = EntryOf(type);
  KV_CHECK(row.size() == RowBytes(type, out.size()), "bytes and elements of the row disagree");
  entry.dequantize(row.data(), out.size() / entry.block.elements, out.data());
}

}  // namespace kvrelay::model_file
