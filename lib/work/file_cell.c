#include "work/file_cell.h"

#include "base/shared_lock.h"

void file_cell_init(struct file_cell *cell) {
    memset(cell, 0, sizeof *cell);
    shared_lock_init(&cell->lock);
}

/* A process that died in the cell has left it half written, which the next path repairs. */
static int enter_cell(struct file_cell *cell, int rc) {
    int died;
    if ((rc = shared_lock_taken(&cell->lock, rc, &died)) || !died)
        return rc;
    cell->since_ms = 0;
    cell->path[sizeof cell->path - 1] = '\0';
    return 0;
}

void file_cell_set(struct file_cell *cell, const char *path) {
    char shown[sizeof cell->path];
    str_copy(shown, sizeof shown, path ? path : "");
    for (char *end = shown; (end = strchr(end, '\n'));) /* the folders of several sources */
        *end = ' ';
    if (enter_cell(cell, pthread_mutex_lock(&cell->lock)))
        return;
    if (path && (!cell->since_ms || strcmp(cell->path, shown) != 0)) {
        str_copy(cell->path, sizeof cell->path, shown);
        cell->since_ms = clock_ms();
        cell->since_wall_ms = clock_wall_ms();
    } else if (!path) {
        cell->since_ms = 0;
    }
    pthread_mutex_unlock(&cell->lock);
}

void file_cell_describe(struct file_cell *cell, int64_t at_least_ms, char *buf, size_t size) {
    char since[32];
    *buf = '\0';
    if (enter_cell(cell, pthread_mutex_trylock(&cell->lock)))
        return;
    if (cell->since_ms && clock_ms() - cell->since_ms >= at_least_ms)
        str_format(buf, size, "waits for %s since %s", cell->path, clock_utc(cell->since_wall_ms, CLOCK_ISO, since, sizeof since));
    pthread_mutex_unlock(&cell->lock);
}
