#include "tandem/tensor/npy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using harness::throws;

const std::filesystem::path kNumpyFiles = std::filesystem::path(TANDEM_FIXTURES_DIR) / "numpy";

class Npy : public harness::FreshDevices {
 protected:
  std::filesystem::path in_folder(const std::string& name) const { return folder_ / name; }

  std::filesystem::path written(const std::string& name, const std::string& bytes) const {
    std::ofstream(in_folder(name), std::ios::binary) << bytes;
    return in_folder(name);
  }

 private:
  const harness::TempFolder folder_;
};

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A file of version 1.0 with this header text and these elements.
std::string npy_bytes(const std::string& header, const std::string& elements) {
  std::string bytes("\x93NUMPY\1\0", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + elements;
}

/// What the generator put into element i.
double generated(DType dtype, int64_t i) {
  if (name_of(dtype).starts_with("uint")) return static_cast<double>(i) + 1;
  if (dtype == DType::boolean) return static_cast<double>(i % 2);
  return static_cast<double>(i) - 2;
}

void expect_generated(const Tensor& tensor, DType dtype, const Shape& shape) {
  ASSERT_EQ(tensor.dtype(), dtype);
  ASSERT_EQ(tensor.shape(), shape);
  const auto values = cast(tensor, DType::float64).to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], generated(dtype, static_cast<int64_t>(i))) << i;
  }
}

TEST_F(Npy, ReadsWhatNumpyWrote) {
  struct Case {
    const char* file;
    DType dtype;
    Shape shape;
  };
  using enum DType;
  const std::vector<Case> cases = {
      {"f2", float16, {2, 3}},
      {"f4", float32, {2, 3}},
      {"f8", float64, {2, 3}},
      {"i1", int8, {2, 3}},
      {"i2", int16, {2, 3}},
      {"u1", uint8, {2, 3}},
      {"u2", uint16, {2, 3}},
      {"u4", uint32, {2, 3}},
      {"u8", uint64, {2, 3}},
      {"i4", int32, {2, 3}},
      {"i8", int64, {2, 3}},
      {"b1", boolean, {2, 3}},
      {"big_f2", float16, {2, 3}},
      {"big_f4", float32, {2, 3}},
      {"big_f8", float64, {2, 3}},
      {"big_i4", int32, {2, 3}},
      {"big_i8", int64, {2, 3}},
      {"version2", float32, {2, 3}},
      {"version3", float32, {2, 3}},
      {"scalar", float64, {}},
      {"empty", int32, {0, 3}},
      {"vector", int64, {5}},
      {"fortran_f4", float32, {2, 3, 4}},
      {"fortran_big_i8", int64, {3, 4}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.file);
    expect_generated(load_npy(kNumpyFiles / (std::string(c.file) + ".npy")), c.dtype, c.shape);
  }
}

TEST_F(Npy, ElementTypesWithoutADTypeAreNamed) {
  for (const char* kind : {"c8", "U3", "O"}) {
    const auto path = kNumpyFiles / (std::string("unknown_") + kind + ".npy");
    EXPECT_TRUE(throws<Unimplemented>([&] { load_npy(path); }, {kind, "b1 can be read"})) << kind;
  }
  EXPECT_TRUE(throws<Unimplemented>([] { load_npy(kNumpyFiles / "unknown_record.npy"); },
                                    {"unknown_record.npy", "[('x', '<f4')"}));
}

TEST_F(Npy, WritesTheSameBytesAsNumpy) {
  for (const char* name : {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1",
                           "scalar", "empty", "vector"}) {
    const auto original = kNumpyFiles / (std::string(name) + ".npy");
    save_npy(in_folder("copy.npy"), load_npy(original));
    EXPECT_EQ(bytes_of(in_folder("copy.npy")), bytes_of(original)) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(in_folder("copy.npy.partial")));
}

TEST_F(Npy, ReadsArchivesOfNumpy) {
  for (const char* file : {"stored.npz", "deflated.npz"}) {
    SCOPED_TRACE(file);
    auto tensors = load_npz(kNumpyFiles / file);
    tensors.erase("zeros");
    ASSERT_EQ(tensors.size(), 3u);
    expect_generated(tensors.at("weights"), DType::float32, {2, 3});
    expect_generated(tensors.at("layer/bias"), DType::float64, {3});
    expect_generated(tensors.at("steps"), DType::int64, {});
  }
  EXPECT_EQ(load_npz(kNumpyFiles / "deflated.npz").at("zeros").to_vector<float>(),
            std::vector<float>(512));
}

TEST_F(Npy, ArchivesComeBackAsTheyWere) {
  const NamedTensors tensors = {{"a", Tensor::from<float>({1, 2, 3, 4}, {2, 2})},
                                {"b/c", Tensor(int64_t{7})},
                                {"none", Tensor::from<double>({}, {0, 4})},
                                {"ones", fill({100, 100}, 1)}};
  for (const bool compress : {false, true}) {
    const auto path = in_folder(compress ? "small.npz" : "plain.npz");
    save_npz(path, tensors, {.compress = compress});
    const auto read = load_npz(path);
    ASSERT_EQ(read.size(), tensors.size());
    EXPECT_EQ(read.at("a").to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(read.at("b/c").item<int64_t>(), 7);
    EXPECT_EQ(read.at("none").shape(), (Shape{0, 4}));
    EXPECT_EQ(read.at("ones").to_vector<float>(), std::vector<float>(10'000, 1.F));
  }
  EXPECT_LT(std::filesystem::file_size(in_folder("small.npz")), 4'000u);
  EXPECT_GT(std::filesystem::file_size(in_folder("plain.npz")), 40'000u);

  const std::string first = bytes_of(in_folder("plain.npz"));
  save_npz(in_folder("plain.npz"), tensors);
  EXPECT_EQ(bytes_of(in_folder("plain.npz")), first);
}

TEST_F(Npy, AnEmptyArchiveIsOne) {
  save_npz(in_folder("empty.npz"), {});
  EXPECT_TRUE(load_npz(in_folder("empty.npz")).empty());
}

TEST_F(Npy, TensorsOfOtherDevicesAreSaved) {
  devices::test::add_test_gpu();
  Tensor x;
  {
    const auto scope = device("GPU:0");
    x = fill({3}, 2.5);
  }
  ASSERT_EQ(x.device(), "/device:GPU:0");
  save_npy(in_folder("x.npy"), x);
  EXPECT_EQ(load_npy(in_folder("x.npy")).to_vector<float>(), (std::vector<float>{2.5, 2.5, 2.5}));
}

TEST_F(Npy, WhatCannotBeSavedIsRefused) {
  const Tensor x = cast(Tensor(1.F), DType::bfloat16);
  EXPECT_TRUE(throws<InvalidArgument>([&] { save_npy(in_folder("x.npy"), x); },
                                      {"save_npy", "x.npy", "no bfloat16", "cast to float32"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        save_npz(in_folder("x.npz"), {{"w", x}});
      },
      {"save_npz", "x.npz", "'w'", "no bfloat16"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        save_npz(in_folder("x.npz"), {{"", Tensor(1.F)}});
      },
      {"needs a name"}));
  EXPECT_FALSE(std::filesystem::exists(in_folder("x.npz")));
  EXPECT_TRUE(throws<Unavailable>([&] { save_npy(in_folder("no/x.npy"), Tensor(1.F)); },
                                  {"no/x.npy", "cannot be written"}));
  EXPECT_TRUE(throws<Unavailable>(
      [&] {
        save_npz(in_folder("no/x.npz"), {{"a", Tensor(1.F)}});
      },
      {"no/x.npz"}));
  EXPECT_TRUE(throws<FailedPrecondition>(
      [&] {
        function([&](const Tensor& y) {
          save_npy(in_folder("x.npy"), y);
          return y;
        })(Tensor::from<float>({1}, {1}));
      },
      {"save_npy", "traced"}));
}

TEST_F(Npy, MissingFilesAreNotFound) {
  EXPECT_TRUE(throws<NotFound>([&] { load_npy(in_folder("none.npy")); }, {"none.npy"}));
  EXPECT_TRUE(throws<NotFound>([&] { load_npz(in_folder("none.npz")); }, {"none.npz"}));
  EXPECT_TRUE(throws<NotFound>([&] { load_npy(in_folder("")); }, {"load_npy"}));
}

TEST_F(Npy, DamageIsNamed) {
  const std::string shape2 = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not an array"},
      {"PK\3\4 and more bytes", "not an array"},
      {npy_bytes(shape2, "1234"), "float32[2] has 8 bytes, only 4 are left"},
      {npy_bytes(shape2, "123456789"), "1 bytes are left after the array float32[2]"},
      {npy_bytes("{'descr': '<f4', 'shape': (2,), }", "12345678"), "lacks one of the keys"},
      {npy_bytes("{'descr': '<f4', 'fortran_order': Maybe", ""), "where True or False should be"},
      {npy_bytes("{'descr': '<f4' 'shape'", ""), "'shape'' where '}' should be"},
      {npy_bytes("{'shape': (2, -3)}", ""), "where a size should be"},
      {npy_bytes("{'shape': (2, 99999999999999999999)}", ""), "where a size should be"},
      {npy_bytes("{'colour': 1}", ""), "unknown key"},
      {npy_bytes(shape2 + "x", "12345678"), "where its end should be"},
      {std::string("\x93NUMPY\1\0\xff\xff", 10), "should have 65535 bytes, only 0 are left"},
      {std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "should have 4294967295 bytes"},
  };
  for (const auto& [bytes, message] : cases) {
    const auto path = written("damaged.npy", bytes);
    EXPECT_TRUE(throws<DataLoss>([&] { load_npy(path); }, {"load_npy", "damaged.npy", message}));
  }
  EXPECT_TRUE(throws<Unimplemented>(
      [&] { load_npy(written("x.npy", std::string("\x93NUMPY\4\0\0\0", 10))); },
      {"version 4.0", "1.0, 2.0 and 3.0"}));
  EXPECT_TRUE(throws<Unimplemented>(
      [&] {
        load_npy(written("x.npy", npy_bytes("{'descr': '<f4', 'fortran_order': False, "
                                            "'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}",
                                            "1234")));
      },
      {"9 axes", "at most 8"}));
}

TEST_F(Npy, NothingIsAllocatedForAPromise) {
  const auto promise = [](const char* shape) {
    return npy_bytes(std::string("{'descr': '<f8', 'fortran_order': True, 'shape': ") + shape + "}",
                     "12345678");
  };
  EXPECT_TRUE(
      throws<DataLoss>([&] { load_npy(written("x.npy", promise("(1000000, 1000000)"))); },
                       {"float64[1000000,1000000] has 8000000000000 bytes, only 8 are left"}));
  for (const char* shape : {"(4611686018427387904, 4611686018427387904)",
                            "(4611686018427387904, 4611686018427387904, 0)"}) {
    EXPECT_TRUE(throws<DataLoss>([&] { load_npy(written("x.npy", promise(shape))); },
                                 {"more elements than can be counted"}));
  }
}

TEST_F(Npy, BytesOfBoolsAreMadeTrueOrFalse) {
  const auto path =
      written("b.npy", npy_bytes("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }",
                                 std::string("\0\1\7", 3)));
  EXPECT_EQ(load_npy(path).to_vector<bool>(), (std::vector<bool>{false, true, true}));
}

TEST_F(Npy, AGradientOfFewRowsIsSavedWithAllOfThem) {
  const Variable table(fill({3, 2}, 1));
  GradientTape tape;
  const Tensor rows = gather(table, Tensor::from<int32_t>({2, 2}, {2}));
  const Tensor gradient = tape.gradient(reduce_sum(rows), Variables{table})[0];
  save_npy(in_folder("gradient.npy"), gradient);
  EXPECT_EQ(load_npy(in_folder("gradient.npy")).to_vector<float>(),
            (std::vector<float>{0, 0, 0, 0, 2, 2}));
}

TEST_F(Npy, DamagedArchivesAreNamed) {
  const std::string good = bytes_of(kNumpyFiles / "stored.npz");
  EXPECT_TRUE(throws<DataLoss>([&] { load_npz(written("x.npz", good.substr(0, 300))); },
                               {"load_npz", "x.npz", "not a zip archive"}));
  std::string flipped = good;
  flipped[good.find("NUMPY") + 60] ^= 1;  // In the first entry's header.
  EXPECT_THROW(load_npz(written("x.npz", flipped)), DataLoss);
  std::string element = good;
  element[good.find("\x93NUMPY") + 128] ^= 1;  // In its elements: only the checksum tells.
  EXPECT_TRUE(throws<DataLoss>([&] { load_npz(written("x.npz", element)); },
                               {"x.npz: weights.npy", "CRC"}));
}

}  // namespace
}  // namespace tandem
