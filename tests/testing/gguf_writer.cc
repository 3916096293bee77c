#include "tests/testing/gguf_writer.h"

#include <fstream>
#include <utility>

#include "tests/testing/append_bytes.h"

namespace kvrelay::testing {
namespace {

void Pad(std::string& out, uint64_t alignment) {
  while (out.size() % alignment != 0) out.push_back('\0');
}

}  // namespace

std::string GgufString(std::string_view text) {
  std::string out;
  AppendBytes<uint64_t>(out, text.size());
  return out.append(text);
}

void GgufWriter::AddString(const std::string& key, const std::string& value) {
  AddRaw(key, static_cast<uint32_t>(model_file::ValueType::kString), GgufString(value));
}

void GgufWriter::AddStrings(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes;
  for (const std::string& value : values) bytes += GgufString(value);
  AddRawArray(key, static_cast<uint32_t>(model_file::ValueType::kString), values.size(), bytes);
}

void GgufWriter::AddRaw(const std::string& key, uint32_t type, const std::string& value_bytes) {
  std::string bytes;
  AppendBytes(bytes, type);
  pairs_.push_back({key, bytes + value_bytes});
}

void GgufWriter::DropKey(const std::string& key) {
  std::erase_if(pairs_, [&](const Pair& pair) { return pair.key == key; });
}

void GgufWriter::DropTensor(const std::string& name) {
  std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
}

void GgufWriter::AddRawArray(const std::string& key, uint32_t element_type, uint64_t count, const std::string& bytes) {
  std::string value;
  AppendBytes(value, element_type);
  AppendBytes(value, count);
  AddRaw(key, static_cast<uint32_t>(model_file::ValueType::kArray), value + bytes);
}

void GgufWriter::AddTensor(const std::string& name, model_file::TensorType type, const std::vector<uint64_t>& dims,
                           std::string data, const GgufTensorLies& lies) {
  tensors_.push_back({name, static_cast<uint32_t>(type), dims, std::move(data), lies});
}

std::string GgufWriter::Head() const {
  std::string out = lies_.magic;
  AppendBytes(out, lies_.version);
  AppendBytes<uint64_t>(out, lies_.tensor_count.value_or(tensors_.size()));
  AppendBytes<uint64_t>(out, lies_.key_count.value_or(pairs_.size()));
  for (const Pair& pair : pairs_) out += GgufString(pair.key) + pair.bytes;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    const std::vector<uint64_t>& dims = tensor.lies.dims ? *tensor.lies.dims : tensor.dims;
    out += GgufString(tensor.name);
    AppendBytes<uint32_t>(out, tensor.lies.dim_count.value_or(dims.size()));
    for (const uint64_t dim : dims) AppendBytes(out, dim);
    AppendBytes<uint32_t>(out, tensor.lies.type.value_or(tensor.type));
    AppendBytes<uint64_t>(out, tensor.lies.offset.value_or(offset));
    offset += (tensor.data.size() + alignment_ - 1) / alignment_ * alignment_;
  }
  Pad(out, alignment_);
  return out;
}

std::string GgufWriter::Bytes() const {
  std::string out = Head();
  for (const Tensor& tensor : tensors_) {
    out += tensor.data;
    Pad(out, alignment_);
  }
  return out;
}

bool GgufWriter::WriteTo(const std::string& path) const {
  const std::string bytes = Bytes();
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.good();
}

}  // namespace kvrelay::testing
