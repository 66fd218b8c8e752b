/* The files that are parts of a recording, as its cache keys see them; declared in window.h. */

#include "formats/eegfile.h"
#include "store/digest.h"
#include "store/mirror.h"
#include "windows/window.h"

enum { STAMP_PATH_SIZE = 4096 };
static const char READERS[] = "2"; /* changes when recordings of formats with parts are read otherwise than before */
_Static_assert(sizeof((struct window_stamp *)0)->hex == DIGEST_HEX_SIZE, "a stamp is a digest");

/* "NAME SIZE TIME" or "NAME VERSION" of a part; a part that is not there is its name alone. */
static void describe_part(struct mirror *mirror, const char *path, char *buf, size_t size) {
    struct mirror_file file;
    int64_t bytes, mtime_ns;
    if (mirror && !mirror_stat(mirror, path, &file, NULL))
        str_format(buf, size, "%s %s", fsio_basename(path), file.version);
    else if (!mirror && !fsio_size(path, &bytes, &mtime_ns, NULL))
        str_format(buf, size, "%s %lld %lld", fsio_basename(path), (long long)bytes, (long long)mtime_ns);
    else
        str_copy(buf, size, fsio_basename(path));
}

int window_stamp_parts(struct mirror *mirror, const char *recording_path, const char *header_path, struct window_stamp *ret,
                       struct err *err) {
    struct eegfile_companions parts;
    char path[STAMP_PATH_SIZE], text[EEGFILE_NAME_SIZE + DIGEST_HEX_SIZE + 64];
    int rc = eegfile_list_companions(header_path, &parts, err);
    if (rc)
        return rc;
    struct digest *digest = digest_new();
    if (digest)
        digest_update(digest, READERS, sizeof READERS);
    for (int i = 0; digest && i < parts.n; i++) {
        const int folder = (int)(fsio_basename(recording_path) - recording_path);
        str_format(path, sizeof path, "%.*s%s", folder, recording_path, parts.names[i]);
        describe_part(mirror, path, text, sizeof text);
        digest_update(digest, text, strlen(text) + 1);
    }
    return digest_finish(digest, ret->hex) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %s", recording_path);
}
