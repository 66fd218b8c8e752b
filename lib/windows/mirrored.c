#include "windows/mirrored.h"

#include "formats/eegfile.h"

_Static_assert((int)MIRROR_PARTS >= (int)EEGFILE_COMPANIONS && (int)MIRROR_NAME_SIZE >= (int)EEGFILE_NAME_SIZE, "parts fit");

/* Labels, and what tells patients and splits apart. */
static bool names_labels(const char *key) {
    static const char *const endings[] = {".tsv",    ".csv", ".csv_bi", ".txt",      ".json",           ".tse",
                                          ".tse_bi", ".lbl", ".lbl_bi", ".seizures", "_annotations.edf"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (str_ends_nocase(key, endings[i]))
            return true;
    return false;
}

static enum mirror_kind kind_of_key(const char *key) {
    switch (eegfile_kind(key)) {
    case EEGFILE_RECORDING:
        return eegfile_has_parts(key) ? MIRROR_HEADER : MIRROR_RECORDING;
    case EEGFILE_EITHER:
        return MIRROR_EITHER;
    case EEGFILE_PART:
        return MIRROR_PART;
    case EEGFILE_NONE:
    default:
        return names_labels(key) ? MIRROR_LABEL : MIRROR_OTHER;
    }
}

static int parts_of(const char *path, char names[MIRROR_PARTS][MIRROR_NAME_SIZE], int *ret_n, struct err *err) {
    struct eegfile_companions found;
    const int rc = eegfile_list_companions(path, &found, err);
    *ret_n = rc ? 0 : found.n;
    for (int i = 0; i < *ret_n; i++)
        str_copy(names[i], MIRROR_NAME_SIZE, found.names[i]);
    return eegfile_is_bad_content(rc) ? 0 : rc; /* its reader says so */
}

const struct mirror_rules mirrored_recordings = {kind_of_key, parts_of};
