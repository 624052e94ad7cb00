"""Writes the columnar files that the tests read: python3 make_columns.py (needs pyarrow)."""
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(__file__).parent / "columns"
texts = ["one", "t\u00e9xt two", "", "four\nlines", "five"]


def write_parquet(name, table, **options):
    pq.write_table(table, folder / name, store_schema=False, **options)


def write_ipc(name, new_writer, table, rows, **options):
    with new_writer(folder / name, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)


ids = pa.array(range(5), pa.int64())
table = pa.table({"id": ids, "text": texts, "title": [text.upper() for text in texts]})
write_parquet("plain.parquet", table, row_group_size=2, compression="zstd")
write_parquet("nulls.parquet", pa.table({"text": ["a", "b", None, "d"]}), row_group_size=2)
write_parquet("bytes.parquet", pa.table({"text": pa.array([b"good", b"bad \xff byte"], pa.binary())}))
kinds = pa.table({
    "id": ids,
    "large": pa.array(texts, pa.large_string()),
    "view": pa.array(texts, pa.string_view()),
    "words": pa.array(["b", "a", "b", "b", "a"]).dictionary_encode(),
    "list": pa.array([["a"]] * 5),
    "text": texts,
})
write_ipc("file.arrow", pa.ipc.new_file, kinds, 3)
write_ipc("stream.arrow", pa.ipc.new_stream, kinds, 2, compression="zstd")

texts_of_rows = [["one", "two"], [], None, ["t\u00e9xt", None]]
fixed = [["a", "b"], ["c", "d"], None, ["e", "f"]]
lists = {
    "text": pa.array(texts_of_rows, pa.list_(pa.string())),
    "large": pa.array(texts_of_rows, pa.large_list(pa.large_string())),
    "fixed": pa.array(fixed, pa.list_(pa.string(), 2)),
    "numbers": pa.array([[1]] * 4, pa.list_(pa.int64())),
    "deep": pa.array([[["a"]]] * 4, pa.list_(pa.list_(pa.string()))),
}
write_parquet("lists.parquet", pa.table(lists), row_group_size=2)
lists["view"] = pa.array(texts_of_rows, pa.list_view(pa.string()))
write_ipc("lists.arrow", pa.ipc.new_file, pa.table(lists), 3)
