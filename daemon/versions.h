/* versions: of this build and of the libraries it runs on. Any thread. */
#ifndef BRR_DAEMON_VERSIONS_H
#define BRR_DAEMON_VERSIONS_H
#include <stddef.h>

struct version_row {
    const char *name;
    char version[64];
};
const char *versions_own(void);
const char *versions_revision(void);
/* Libraries as linked at run time. Returns the number written. */
size_t versions_list(struct version_row *rows, size_t max);

#endif
