/* manifest_index: the known facts about the recordings of a data source, kept in the cache volume between runs, so that a start
 * only compares file times and opens no file. One text file per (source, settings): a line per recording with the identity of its
 * file and labels and the facts read from them. It is a cache: unreadable or outdated entries count as absent. Used by manifest.c.
 * Loading and writing: one thread; manifest_index_find: any. */
#pragma once

#include "eeg/labels.h"
#include "windows/manifest.h"
#include "windows/recording.h"

/* Identifies one version of a recording. */
struct manifest_identity {
    int64_t size_bytes, mtime_ns;
    char labels[LABELS_STAMP_SIZE];
};

struct manifest_index;
/* Opens the index of a source under these settings; empty when there is none. Errors: EXHAUSTED, NOT_FOUND (no such source), RANGE.
 */
int manifest_index_open(const struct manifest_config *config, struct manifest_index **ret, struct err *err);
void manifest_index_close(struct manifest_index *index);
OWNABLE(struct manifest_index, manifest_index_close)
/* Returns the facts of a recording whose identity is unchanged; NULL when it is new or changed. *ret_skipped: unlabelled, and the
 * rule is to skip (the facts are then empty). Valid as long as the index. */
const struct recording_facts *manifest_index_find(const struct manifest_index *index, const char *relative_path,
                                                  const struct manifest_identity *identity, bool *ret_skipped);
int64_t manifest_index_count(const struct manifest_index *index);

/* Replaces the file by those of the n entries that have a recording or were skipped; identities of each. */
struct manifest_index_content {
    const struct manifest_entry *entries;
    const struct manifest_identity *identities;
    int64_t n;
};
int manifest_index_write(const struct manifest_index *index, const struct manifest_index_content *content, struct err *err);
