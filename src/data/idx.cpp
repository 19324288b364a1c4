#include "data/idx.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "data/memory_dataset.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp {
namespace {

// The bytes of a file. A gzip file, of one member or several, is unpacked.
class Input {
 public:
  explicit Input(const IdxFile& file) : name_(file.name), stream_(file.bytes) {
    stream_.seekg(0, std::ios::end);
    file_bytes_ = static_cast<size_t>(std::max<std::streamoff>(stream_.tellg(), 0));
    stream_.clear();
    stream_.seekg(0);
    stream_.clear();
    packed_ = stream_.peek() == 0x1f;
    require(!stream_.bad(), Exit::data, "{}: cannot read it: {}", name_, std::strerror(errno));
    if (!packed_) return;
    buffer_.resize(std::clamp<size_t>(file_bytes_, 1 << 8, 1 << 18));
    constexpr int kWindow = 15, kGzip = 16;
    if (::inflateInit2(&z_, kWindow + kGzip) != Z_OK) throw std::bad_alloc();
  }
  ~Input() {
    if (packed_) ::inflateEnd(&z_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const std::string& name() const { return name_; }
  size_t file_bytes() const { return file_bytes_; }  // packed size; 0: unknown

  // Reads up to `bytes` bytes; returns how many there were.
  size_t read(uint8_t* to, size_t bytes) { return packed_ ? unpack(to, bytes) : copy(to, bytes); }

 private:
  size_t copy(uint8_t* to, size_t bytes) {
    stream_.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(bytes));
    require(!stream_.bad(), Exit::data, "{}: cannot read it: {}", name_, std::strerror(errno));
    return static_cast<size_t>(stream_.gcount());
  }

  size_t unpack(uint8_t* to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
      if (z_.avail_in == 0) {
        z_.next_in = buffer_.data();
        z_.avail_in = static_cast<unsigned>(copy(buffer_.data(), buffer_.size()));
      }
      if (member_ended_ && z_.avail_in == 0) break;
      if (member_ended_) ::inflateReset(&z_);
      const auto room = static_cast<unsigned>(std::min<size_t>(bytes - done, 1 << 30));
      z_.next_out = to + done;
      z_.avail_out = room;
      const int code = ::inflate(&z_, Z_NO_FLUSH);
      done += room - z_.avail_out;
      member_ended_ = code == Z_STREAM_END;
      require(code != Z_BUF_ERROR, Exit::data,
              "{}: truncated, its gzip stream ends early; copy or download the file again", name_);
      if (code == Z_MEM_ERROR) throw std::bad_alloc();
      require(code == Z_OK || code == Z_STREAM_END, Exit::data, "{}: corrupt ({}); copy or download the file again",
              name_, z_.msg ? z_.msg : ::zError(code));
    }
    return done;
  }

  std::string name_;
  std::istream& stream_;
  size_t file_bytes_ = 0;
  bool packed_ = false;
  bool member_ended_ = false;
  z_stream z_ = {};
  std::vector<uint8_t> buffer_;
};

// An IDX file has the bytes 0, 0, the element type (8 is uint8) and the number of dimensions; then the dimensions, then
// the elements, all big endian.
constexpr uint32_t kImages = 0x00000803, kLabels = 0x00000801;

std::string_view kind(uint32_t magic) {
  if (magic == kImages) return "images";
  if (magic == kLabels) return "labels";
  return "something else";
}

uint32_t read_u32(Input& input) {
  uint8_t b[4];
  const size_t found = input.read(b, 4);
  require(found == 4, Exit::data, "{}: truncated within its header; copy or download the file again", input.name());
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
}

void read_magic(Input& input, uint32_t expected) {
  const uint32_t magic = read_u32(input);
  require(magic == expected, Exit::data,
          "{}: holds {}, not {} (an IDX file of {} starts with {:08x}, this one with {:08x})", input.name(),
          kind(magic), kind(expected), kind(expected), expected, magic);
}

// Reads exactly `bytes` bytes, which must end at the end of the file. Does not trust the size in the header: memory
// grows with the bytes read.
std::vector<uint8_t> read_rest(Input& input, size_t bytes, int64_t most_bytes) {
  constexpr size_t kPiece = 1 << 12;
  require(std::cmp_less_equal(bytes, most_bytes), Exit::data,
          "{}: its header claims {} MiB of data, and this process may use {} MiB of memory", input.name(), bytes >> 20,
          most_bytes >> 20);
  std::vector<uint8_t> data;
  size_t found = 0;
  do {
    data.resize(std::min(bytes, std::max({kPiece, 2 * found, 3 * input.file_bytes()})));
    found += input.read(data.data() + found, data.size() - found);
  } while (found == data.size() && found < bytes);
  require(found == bytes, Exit::data,
          "{}: truncated, its header claims {} bytes of data, but it has {}; copy or download the file again",
          input.name(), bytes, found);
  uint8_t more;  // the read past the end also makes zlib check the checksum
  require(input.read(&more, 1) == 0, Exit::data,
          "{}: too long, it has more than the {} bytes of data that its header claims; copy or download the file again",
          input.name(), bytes);
  return data;
}

std::pair<ImageShape, std::vector<uint8_t>> read_images(Input& input, int64_t most_bytes) {
  read_magic(input, kImages);
  const uint32_t n = read_u32(input), h = read_u32(input), w = read_u32(input);
  constexpr size_t kMaxBytes = size_t{1} << 62;
  size_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(size_t{h} * w, size_t{n}, &bytes) || bytes > kMaxBytes;  // h * w < 2^64
  require(n > 0 && h > 0 && w > 0 && !overflow, Exit::data,
          "{}: its header claims {} images of {} x {} pixels, which is impossible; copy or download the file again",
          input.name(), n, h, w);
  return {ImageShape{h, w, 1}, read_rest(input, bytes, most_bytes)};
}

std::vector<uint8_t> read_labels(Input& input, int classes, int64_t most_bytes) {
  read_magic(input, kLabels);
  const uint32_t n = read_u32(input);
  require(n > 0, Exit::data, "{}: its header claims 0 labels; copy or download the file again", input.name());
  std::vector<uint8_t> labels = read_rest(input, n, most_bytes);
  const auto bad = std::find_if(labels.begin(), labels.end(), [&](uint8_t label) { return label >= classes; });
  require(bad == labels.end(), Exit::data, "{}: the label of sample {} is {}, but there are {} classes, 0 to {}",
          input.name(), bad - labels.begin(), bad == labels.end() ? 0 : *bad, classes, classes - 1);
  return labels;
}

}  // namespace

std::unique_ptr<Dataset> read_idx(const IdxFile& images, const IdxFile& labels, int classes, int64_t most_bytes) {
  Input image_file(images), label_file(labels);
  auto [shape, pixels] = read_images(image_file, most_bytes);
  std::vector<uint8_t> numbers = read_labels(label_file, classes, most_bytes);
  const int64_t count = static_cast<int64_t>(pixels.size()) / shape.elements();
  require(count == static_cast<int64_t>(numbers.size()), Exit::data,
          "{} holds {} images, but {} holds {} labels: the two files do not belong together", image_file.name(), count,
          label_file.name(), numbers.size());
  return std::make_unique<MemoryDataset>(shape, classes, std::move(pixels), std::move(numbers));
}

std::unique_ptr<Dataset> read_idx(const std::filesystem::path& images, const std::filesystem::path& labels, int classes,
                                  int64_t most_bytes) {
  FileStream image_file(images), label_file(labels);
  return read_idx(IdxFile{printable(images.native()), image_file}, IdxFile{printable(labels.native()), label_file},
                  classes, most_bytes);
}

}  // namespace ddp
