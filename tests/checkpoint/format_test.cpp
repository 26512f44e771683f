// The parts of the format, each by itself.
#include <gtest/gtest.h>

#include "checkpoint/bundle_format.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/index_table.h"
#include "checkpoint/object_graph.h"
#include "checkpoint/wire.h"
#include "harness/throws.h"
#include "tandem/error.h"

namespace tandem::checkpoint {
namespace {

using harness::throws;

TEST(Wire, FieldsAreReadAsWritten) {
  const std::string bytes = WireWriter()
                                .number(1, -5)
                                .number(2, 0)
                                .text(3, "abc")
                                .fixed32(4, 0xdeadbeef)
                                .message(100, WireWriter())
                                .bytes();
  WireReader in(bytes);
  ASSERT_TRUE(in.next());
  EXPECT_EQ(in.field(), 1);
  EXPECT_EQ(in.number(), -5);
  ASSERT_TRUE(in.next());  // Zero is not written.
  EXPECT_EQ(in.field(), 3);
  EXPECT_EQ(in.text(), "abc");
  EXPECT_TRUE(throws<DataLoss>([&] { in.number(); }, {"field 3"}));
  ASSERT_TRUE(in.next());
  EXPECT_EQ(in.fixed32(), 0xdeadbeefu);
  ASSERT_TRUE(in.next());
  EXPECT_EQ(in.field(), 100);
  EXPECT_EQ(in.text(), "");
  EXPECT_FALSE(in.next());
}

TEST(Wire, WhatEndsTooEarlyIsRefused) {
  const std::string bytes = WireWriter().text(1, "abcdef").fixed32(2, 7).number(3, 300).bytes();
  const auto read_all = [](std::string_view part) {
    for (WireReader in(part); in.next();) {
    }
  };
  read_all(bytes);
  for (size_t end = 1; end < bytes.size(); ++end) {
    if (end == 8 || end == 13) continue;  // Between two fields.
    EXPECT_THROW(read_all(std::string_view(bytes).substr(0, end)), DataLoss) << end;
  }
}

TEST(BundleFormat, EntriesAreReadAsWritten) {
  const BundleEntry entry{.type = type_number(DType::float64),
                          .sizes = {3, 0, 5},
                          .shard = 2,
                          .offset = int64_t{1} << 40,
                          .bytes = 0,
                          .masked_crc = 12345};
  const BundleEntry read = decode_entry(encode(entry));
  EXPECT_EQ(read.type, 2);
  EXPECT_EQ(read.sizes, entry.sizes);
  EXPECT_EQ(read.shard, 2);
  EXPECT_EQ(read.offset, entry.offset);
  EXPECT_EQ(read.masked_crc, 12345u);
}

TEST(BundleFormat, AnEntryWhoseBytesAreNotThoseOfItsShapeIsRefused) {
  const auto entry = [](std::vector<int64_t> sizes, int64_t bytes, int64_t offset = 0) {
    return encode(
        BundleEntry{.type = 1, .sizes = std::move(sizes), .offset = offset, .bytes = bytes});
  };
  EXPECT_TRUE(throws<DataLoss>([&] { decode_entry(entry({2, 3}, 23)); }, {"float32[2,3]", "23"}));
  EXPECT_THROW(decode_entry(entry({INT64_MAX, INT64_MAX}, 4)), DataLoss);
  EXPECT_THROW(decode_entry(entry({-1}, -4)), DataLoss);
  EXPECT_THROW(decode_entry(entry({}, 4, INT64_MAX - 1)), DataLoss);
  EXPECT_EQ(decode_entry(entry({INT64_MAX, INT64_MAX, 0}, 0)).sizes.size(), 3u);
}

TEST(BundleFormat, ATensorOfManyAxesIsListedAndNotRead) {
  const BundleEntry entry =
      decode_entry(encode(BundleEntry{.type = 1, .sizes = std::vector<int64_t>(9, 1), .bytes = 4}));
  EXPECT_TRUE(throws<Unimplemented>([&] { entry.shape(); }, {"9 axes", "at most 8"}));
}

TEST(BundleFormat, StringsCarryTheirOwnChecksums) {
  for (const std::string& value : {std::string(), std::string("abc"), std::string(300, '\0')}) {
    const StoredString stored = store_string(value);
    EXPECT_EQ(load_string(stored.bytes, mask_crc32c(stored.crc)), value);
    for (size_t i = 0; i < stored.bytes.size(); ++i) {
      std::string damaged = stored.bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ 4);
      EXPECT_THROW(load_string(damaged, mask_crc32c(stored.crc)), DataLoss) << i;
    }
  }
}

TEST(IndexTable, IsReadAsWrittenWhateverItsSize) {
  for (const int count : {0, 1, 17, 5000}) {
    IndexTable table;
    for (int i = 0; i < count; ++i) table["key/" + std::to_string(i)] = std::string(i % 50, 'x');
    EXPECT_EQ(decode_index(encode_index(table)), table) << count;
  }
}

TEST(IndexTable, EveryChangedBitOfItsBlocksIsNoticed) {
  const IndexTable table = {{"", "header"}, {"a/b", "one"}, {"a/c", "two"}};
  const std::string file = encode_index(table);
  for (size_t i = 0; i + 48 < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 16);
    try {
      EXPECT_EQ(decode_index(damaged), table) << i;  // A block that is not needed.
    } catch (const DataLoss&) {
    }
  }
}

TEST(IndexTable, AFooterThatAsksForTooMuchIsRefused) {
  std::string file = encode_index({{"a", "b"}});
  const size_t footer = file.size() - 48;
  for (int i = 0; i < 9; ++i) file[footer + static_cast<size_t>(i)] = '\xff';
  file[footer + 9] = 1;
  EXPECT_TRUE(throws<DataLoss>([&] { decode_index(file); }, {"the index is damaged: a block of"}));
  EXPECT_TRUE(throws<DataLoss>([&] { decode_index("short"); }, {"the index has 5 bytes"}));
}

TEST(ObjectGraph, IsReadAsWritten) {
  ObjectGraph graph;
  graph.nodes.resize(3);
  graph.nodes[0].children = {{1, "model"}, {2, "step"}};
  graph.nodes[1].children = {{2, "alias"}, {0, "parent"}};
  graph.nodes[2].attributes = {{kVariableValue, "Variable", "step/.ATTRIBUTES/VARIABLE_VALUE"}};
  const ObjectGraph read = decode_graph(encode(graph));
  ASSERT_EQ(read.nodes.size(), 3u);
  EXPECT_EQ(read.nodes[1].children[0].name, "alias");
  EXPECT_EQ(read.nodes[1].children[0].node, 2);
  EXPECT_EQ(read.nodes[2].attributes[0].key, "step/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(paths(read), (std::vector<std::string>{"", "model", "step"}));
}

TEST(ObjectGraph, AChildThatIsNoNodeIsRefused) {
  ObjectGraph graph;
  EXPECT_TRUE(throws<DataLoss>([&] { decode_graph(encode(graph)); }, {"no root"}));
  graph.nodes.resize(1);
  graph.nodes[0].children = {{0, "itself"}};
  const std::string bytes = encode(graph);
  EXPECT_EQ(decode_graph(bytes).nodes.size(), 1u);
  const std::string child = WireWriter().message(1, WireWriter().number(1, 7).text(2, "x")).bytes();
  WireWriter out;
  out.text(1, child);
  EXPECT_TRUE(throws<DataLoss>([&] { decode_graph(out.bytes()); }, {"1 nodes", "'x'", "number 7"}));
}

TEST(ObjectGraph, SlashesAndDotsInNamesAreEscaped) {
  EXPECT_EQ(joined_path("", "kernel"), "kernel");
  EXPECT_EQ(joined_path("model", "a/b.c"), "model/a.Sb..c");
  EXPECT_EQ(key_of("model/kernel", kVariableValue), "model/kernel/.ATTRIBUTES/VARIABLE_VALUE");
}

}  // namespace
}  // namespace tandem::checkpoint
