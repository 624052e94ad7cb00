// Interface of the plug-in with the Arrow library: columns of texts or of lists of texts, row group
// by row group. Plain C, since the library may come from another compiler than the program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

// Changes with every change below.
inline constexpr int arrow_plugin_version = 2;
inline constexpr const char* arrow_plugin_file = "libtrireme_arrow.so";
inline constexpr const char* arrow_plugin_symbol = "trireme_arrow";

struct ArrowPluginFile;    // an open file and the columns to be read
struct ArrowPluginCursor;  // reads a row group from its first row on; its file outlives it

// A value of a column. Its bytes should be UTF-8, but nothing has checked that.
struct ArrowPluginText {
  const char* bytes;  // null: the value is null
  std::int64_t size;
};

struct ArrowPluginColumn {
  const ArrowPluginText* texts;
  // For lists: the number of texts up to the end of each row; a list that is null has one null
  // text. Null if each row has one text.
  const std::int64_t* ends;
};

// Some rows, which live until they are released, longer than cursor and file if need be.
struct ArrowPluginRows {
  std::int64_t rows;
  const ArrowPluginColumn* columns;
};

// Reason of a failure, without the name of the file.
struct ArrowPluginFault {
  char reason[2048];
};

struct ArrowPlugin {
  int version;
  const char* library;  // "Arrow 21.0.0"

  // A Parquet file, an IPC file or an IPC stream, told apart by their first bytes; null if it
  // fails.
  ArrowPluginFile* (*open)(const char* path, const char* const* columns, int count,
                           ArrowPluginFault* fault);
  void (*close)(ArrowPluginFile*);
  // Row groups of Parquet, record batches of IPC.
  std::int64_t (*groups)(const ArrowPluginFile*);
  // Nulls of a column in a row group as the file's statistics state them; -1 if they do not.
  std::int64_t (*nulls)(const ArrowPluginFile*, std::int64_t group, int column);

  ArrowPluginCursor* (*begin)(ArrowPluginFile*, std::int64_t group, ArrowPluginFault* fault);
  // 1 with some rows, 0 after the last ones, -1 if it fails.
  int (*next)(ArrowPluginCursor*, const ArrowPluginRows** rows, ArrowPluginFault* fault);
  void (*end)(ArrowPluginCursor*);
  void (*release)(const ArrowPluginRows*);
};
using ArrowPluginEntry = const ArrowPlugin* (*)();

}  // namespace trireme
