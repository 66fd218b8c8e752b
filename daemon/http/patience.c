#include "daemon/http/patience.h"

#include <sys/socket.h>

struct patience_place {
    bool used;
    int fd; /* borrowed; open while the place is used */
    int64_t until_ms;
};
struct patience {
    pthread_mutex_t lock;
    struct patience_place places[PATIENCE_MOST];
};

struct patience *patience_new(void) {
    struct patience *p = calloc(1, sizeof *p);
    if (p)
        pthread_mutex_init(&p->lock, NULL);
    return p;
}

void patience_free(struct patience *p) {
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p);
}

struct patience_place *patience_enter(struct patience *p, int fd, int64_t now_ms) {
    struct patience_place *free_place = NULL;
    LOCKED(&p->lock);
    for (int i = 0; i < PATIENCE_MOST && !free_place; i++)
        if (!p->places[i].used)
            free_place = &p->places[i];
    if (free_place)
        *free_place = (struct patience_place){true, fd, now_ms + PATIENCE_READ_MS};
    return free_place;
}

void patience_until(struct patience *p, struct patience_place *place, int64_t until_ms) {
    if (!place)
        return;
    LOCKED(&p->lock);
    place->until_ms = until_ms;
}

void patience_leave(struct patience *p, struct patience_place *place) {
    if (!place)
        return;
    LOCKED(&p->lock);
    place->used = false;
}

int patience_look(struct patience *p, int64_t now_ms) {
    int n = 0;
    LOCKED(&p->lock);
    for (int i = 0; i < PATIENCE_MOST; i++) {
        struct patience_place *place = &p->places[i];
        if (!place->used || now_ms < place->until_ms)
            continue;
        shutdown(place->fd, SHUT_RDWR); /* its thread sees the end and closes it */
        place->until_ms = INT64_MAX;
        n++;
    }
    return n;
}
