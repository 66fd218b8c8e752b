/* served_file: the files of models that serve, served/NAME-SHA256.safetensors below paths.results, and of pinned checkpoints. Each
 * is a hard link, so that a job's pruning cannot remove the model. Another model under the same name has another file name: a file
 * is never replaced by other weights. Any thread; blocks. */
#ifndef BRR_DAEMON_MODELS_SERVED_FILE_H
#define BRR_DAEMON_MODELS_SERVED_FILE_H
#include <stdbool.h>

#include "base/err.h"
#include "store/digest.h"

enum { SERVED_PATH = 4096 };
struct served_file {
    char path[SERVED_PATH], sha256[DIGEST_HEX_SIZE];
};

/* True if models may be served and uploaded under this name. */
bool served_file_name(const char *name);
/* Links the file `from`, which must be a model, into the folder, durably. Where hard links are impossible, the path is `from`
 * itself. */
int served_file_make(const char *results_dir, const char *name, const char *from, struct served_file *ret, struct err *err);
/* Removes the files of this name, and those that earlier versions made, except the file at the path `keep` ("" = none). */
void served_file_remove(const char *results_dir, const char *name, const char *keep);
/* Links the file `from` as FOLDER/NAME.safetensors below results_dir, durably; *ret_path as above. */
int served_file_link(const char *results_dir, const char *folder, const char *name, const char *from, char ret_path[SERVED_PATH],
                     struct err *err);

#endif
