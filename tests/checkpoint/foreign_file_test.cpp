#include "checkpoint/foreign_file.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace ddp {
namespace {

using namespace std::string_literals;

// A local file header of a zip archive, with the name of its first file.
std::string zip(const std::string& entry) {
  return "PK\x03\x04"s + std::string(22, '\0') + static_cast<char>(entry.size()) + "\0\0\0"s + entry + "content";
}

TEST(ForeignFile, IsNamedForWhatItIs) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "it is empty; copy or download it again"},
      {zip("resnet18/data.pkl"), "it is an archive of torch.save; convert it: python3 -c"},
      {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."s, "it is a Python pickle, as of torch.save in its old format; "},
      {zip("arr_0.npy"), "it is an archive of NumPy arrays"},
      {zip("metadata.json"), "it is a Keras model"},
      {zip("photo.jpg"), "it is a zip archive; unpack it: unzip 'w.pth'"},
      {"\x89HDF\r\n\x1a\n\0\0"s, "it is an HDF5 file, as of Keras"},
      {"\x93NUMPY\x01\0v\0"s, "it is a NumPy array"},
      {"\x1f\x8b\x08\0"s, "it is packed with gzip; unpack it: gunzip -c 'w.pth' > 'w.unpacked.pth'"},
      {"\x28\xb5\x2f\xfd\0"s, "it is packed with zstd; unpack it: unzstd -c 'w.pth' > 'w.unpacked.pth'"},
      {std::string(257, 'a') + "ustar\0"s, "it is a tar archive; unpack it: tar -xf 'w.pth'"},
      {"\x08\x07\x12\x07pytorch\0"s, "it is an ONNX model"},
      {"GGUF\x03\0\0\0"s, "it is a GGUF file"},
      {"\x89PNG\r\n\x1a\n\0"s, "it is a picture"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n",
       "it is a pointer of Git LFS, not the file itself; get the file in its repository: git lfs pull --include"},
      {"\n <!DOCTYPE html>\n<html>", "it is an HTML page, perhaps an error or a login page in place of a download"},
      {"\xef\xbb\xbf{\"weight_map\": {}}", "it is a JSON text, perhaps an index of other files"},
      {"lr = 0.1\n", "it is a text; give the file with the weights"},
  };
  for (const auto& [head, text] : cases)
    EXPECT_EQ(foreign_file(head, "w.pth").find(text), 0u) << text << ": " << foreign_file(head, "w.pth");
  EXPECT_EQ(foreign_file("\x10\0\0\0\0\0\0\0[]"s, "w.pth"), "");
}

TEST(ForeignFile, KeepsItsContent) {
  const std::string pickle = foreign_file(zip("archive/data.pkl"), "m/model.safetensors");
  EXPECT_TRUE(pickle.ends_with(" 'm/model.safetensors' 'm/model.converted.safetensors'")) << pickle;
  const std::string packed = foreign_file("\x1f\x8b\x08\0"s, "m/model.safetensors.gz");
  EXPECT_TRUE(packed.ends_with("gunzip -c 'm/model.safetensors.gz' > 'm/model.safetensors'")) << packed;
}

// The line stands in double quotes of a shell.
TEST(ForeignFile, ConvertsByALineForTheShell) {
  const std::string text = foreign_file(zip("archive/data.pkl"), "my 'best'/resnet18.pth");
  EXPECT_TRUE(text.ends_with(R"( 'my '\''best'\''/resnet18.pth' 'my '\''best'\''/resnet18.safetensors')")) << text;
  const size_t begin = text.find("-c \"") + 4, end = text.find('"', begin);
  const std::string code = text.substr(begin, end - begin);
  EXPECT_EQ(code.find_first_of("$`\\!"), std::string::npos) << code;
  EXPECT_NE(code.find("weights_only=True"), std::string::npos) << code;
}

}  // namespace
}  // namespace ddp
