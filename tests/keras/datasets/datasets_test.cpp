#include "tandem/keras/datasets.h"

#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <numeric>

#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "keras/datasets/idx.h"
#include "tandem/tandem.h"

namespace tandem::keras::datasets {
namespace {

using harness::throws;
namespace fs = std::filesystem;

/// A folder of its own, which Keras would take for its own too.
class DatasetsTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    fs::create_directories(folder_ / "datasets");
    setenv("KERAS_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    unsetenv("KERAS_HOME");
    FreshDevices::TearDown();
  }

  const fs::path& folder() const { return folder_.path(); }

  fs::path written(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  fs::path compressed(const std::string& name, const std::string& bytes) const {
    const fs::path path = folder_ / name;
    const gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }

 private:
  const harness::TempFolder folder_;
};

/// An IDX file of bytes 0, 1, ..
std::string idx(const std::vector<uint32_t>& sizes) {
  std::string bytes("\0\0\x08", 3);
  bytes += static_cast<char>(sizes.size());
  uint32_t count = 1;
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 0xff);
    count *= size;
  }
  for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i);
  return bytes;
}

NamedTensors archive(int64_t train, int64_t test) {
  return {{"x_train", zeros({train, 2, 2}, DType::uint8)},
          {"y_train", zeros({train}, DType::uint8)},
          {"x_test", ones({test, 2, 2}, DType::uint8)},
          {"y_test", ones({test}, DType::uint8)}};
}

// ---- Fashion-MNIST ----

TEST_F(DatasetsTest, FashionMnistOfDebiansPackage) {
  const auto [train, test] = fashion_mnist::load_data();
  EXPECT_EQ(train.x.shape(), (Shape{60'000, 28, 28}));
  EXPECT_EQ(train.x.dtype(), DType::uint8);
  EXPECT_EQ(test.x.shape(), (Shape{10'000, 28, 28}));
  EXPECT_EQ(test.y.shape(), (Shape{10'000}));
  // The first labels, as the data set's own page shows them, and as many of each class.
  const auto labels = train.y.to_vector<uint8_t>();
  EXPECT_EQ(std::vector<uint8_t>(labels.begin(), labels.begin() + 8),
            (std::vector<uint8_t>{9, 0, 0, 3, 0, 2, 7, 2}));
  std::vector<int> counts(10);
  for (const uint8_t label : labels) ++counts.at(label);
  EXPECT_EQ(counts, std::vector<int>(10, 6000));
  // The mean pixel that is found in the literature, 0.2860 of 255.
  const auto pixels = train.x.to_vector<uint8_t>();
  const double sum = std::accumulate(pixels.begin(), pixels.end(), 0.0);
  EXPECT_NEAR(sum / static_cast<double>(pixels.size()) / 255, 0.2860, 5e-5);
}

TEST_F(DatasetsTest, AMissingDatasetSaysWhereItWasSoughtAndHowToGetIt) {
  const std::string nowhere = (folder() / "nowhere").string();
  EXPECT_TRUE(
      throws<NotFound>([&] { fashion_mnist::load_data(nowhere); },
                       {"fashion_mnist: no data in " + nowhere,
                        "apt-get install dataset-fashion-mnist", "train-images-idx3-ubyte"}));
  EXPECT_TRUE(
      throws<NotFound>([] { mnist::load_data(); },
                       {"mnist: no data in " + (folder() / "datasets" / "mnist.npz").string(),
                        "mnist.npz", "keras"}));
}

// ---- MNIST ----

TEST_F(DatasetsTest, MnistOfKerassCache) {
  save_npz(folder() / "datasets" / "mnist.npz", archive(6, 3), {.compress = true});
  const auto [train, test] = mnist::load_data();
  EXPECT_EQ(train.x.shape(), (Shape{6, 2, 2}));
  EXPECT_EQ(test.y.to_vector<uint8_t>(), (std::vector<uint8_t>{1, 1, 1}));
}

TEST_F(DatasetsTest, MnistOfAPath) {
  save_npz(folder() / "mine.npz", archive(5, 2));
  EXPECT_EQ(mnist::load_data(folder() / "mine.npz").train.x.shape(), (Shape{5, 2, 2}));
}

TEST_F(DatasetsTest, MnistOfAFolderOfPlainAndCompressedFiles) {
  written("train-images-idx3-ubyte", idx({4, 2, 3}));
  compressed("train-labels-idx1-ubyte.gz", idx({4}));
  compressed("t10k-images-idx3-ubyte.gz", idx({2, 2, 3}));
  written("t10k-labels-idx1-ubyte", idx({2}));
  const auto [train, test] = mnist::load_data(folder());
  EXPECT_EQ(train.x.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(train.x.at<uint8_t>({3, 1, 2}), 23);
  EXPECT_EQ(train.y.to_vector<uint8_t>(), (std::vector<uint8_t>{0, 1, 2, 3}));
  EXPECT_EQ(test.x.shape(), (Shape{2, 2, 3}));
}

TEST_F(DatasetsTest, PartsThatDoNotFitAreNamed) {
  NamedTensors arrays = archive(5, 2);
  arrays["y_train"] = zeros({4}, DType::uint8);
  const fs::path path = folder() / "mine.npz";
  save_npz(path, arrays);
  EXPECT_TRUE(throws<DataLoss>(
      [&] { mnist::load_data(path); },
      {"mnist: " + path.string(), "training pictures are [5,2,2] and their labels [4]"}));
  arrays.erase("x_test");
  save_npz(path, arrays);
  EXPECT_TRUE(throws<DataLoss>([&] { mnist::load_data(path); },
                               {"no array 'x_test', only x_train, y_test, y_train"}));
}

// ---- IDX ----

TEST_F(DatasetsTest, DamagedFilesAreDataLossWithTheirPath) {
  const std::string whole = idx({3, 5});
  const auto refused = [](const fs::path& path, std::string_view why) {
    return throws<DataLoss>([&] { load_idx(path); }, {path.string(), why});
  };
  EXPECT_TRUE(refused(written("short", whole.substr(0, whole.size() - 1)), "ends too early"));
  EXPECT_TRUE(refused(written("header", whole.substr(0, 7)), "ends too early"));
  EXPECT_TRUE(refused(written("long", whole + "x"), "longer than its header says"));
  EXPECT_TRUE(refused(written("text", "hello, world"), "does not begin as an IDX file"));
  EXPECT_TRUE(refused(written("axes", std::string("\0\0\x08\x63", 4)), "99 axes"));
  EXPECT_TRUE(
      refused(written("huge", std::string("\0\0\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff", 12)),
              "cannot hold"));
  EXPECT_TRUE(throws<Unimplemented>(
      [&] { load_idx(written("floats", std::string("\0\0\x0d\x01", 4))); }, {"kind 0x0d"}));
  EXPECT_TRUE(throws<NotFound>([&] { load_idx(folder() / "none"); }, {"none: no file"}));
}

TEST_F(DatasetsTest, DamagedCompressionIsDataLoss) {
  const fs::path path = compressed("file.gz", idx({200, 10}));
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(load_idx(path).shape(), (Shape{200, 10}));
  for (size_t length : {size_t{12}, whole.size() / 2, whole.size() - 9, whole.size() - 1}) {
    EXPECT_TRUE(
        throws<DataLoss>([&] { load_idx(written("cut.gz", whole.substr(0, length))); }, {"cut.gz"}))
        << length;
  }
  std::string flipped = whole;
  flipped[whole.size() - 6] = static_cast<char>(flipped[whole.size() - 6] ^ 1);  // The checksum.
  EXPECT_TRUE(throws<DataLoss>([&] { load_idx(written("flipped.gz", flipped)); }, {"flipped.gz"}));
}

}  // namespace
}  // namespace tandem::keras::datasets
