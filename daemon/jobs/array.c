#include "daemon/jobs/array.h"

void array_read(struct job *job, const struct jobfile *file) {
    job->array.size = file->executor ? (int)file->array.size : 0;
    job->array.index = (int)file->array.index;
    str_copy(job->array.head, sizeof job->array.head, file->array.head ? file->array.head : job->id);
    job->resources = file->resources;
}

static bool together(const struct job *a, const struct job *b) {
    const struct jobfile_resources *x = &a->resources, *y = &b->resources;
    return a->array.size && a->array.size == b->array.size && !strcmp(a->array.head, b->array.head) &&
           !strcmp(a->owner, b->owner) && !strcmp(a->wanted, b->wanted) && x->nodes == y->nodes && x->ranks == y->ranks &&
           x->cpus_per_rank == y->cpus_per_rank && x->gpus_per_rank == y->gpus_per_rank && x->time_ms == y->time_ms;
}

void array_entered(struct job *const *open, int n, const struct job *job, int64_t now_ms) {
    int members = 0;
    if (!job->array.size)
        return;
    for (int i = 0; i < n; i++)
        members += together(open[i], job);
    for (int i = 0; i < n; i++)
        if (together(open[i], job)) {
            open[i]->array.newest_ms = now_ms;
            open[i]->array.whole = members >= job->array.size;
        }
}

bool array_is_due(const struct job *job, int64_t now_ms) {
    const int64_t since_ms = job->array.newest_ms ? job->array.newest_ms : job->created_ms;
    return !job->array.size || job->attempts || job->array.whole || now_ms < since_ms || now_ms - since_ms > ARRAY_PATIENCE_MS;
}

int array_members(struct job *const *open, int n, const struct job *job, const struct job *ret[JOBFILE_MAX_ARRAY]) {
    for (int i = 0; i < job->array.size; i++)
        ret[i] = NULL;
    for (int i = 0; i < n; i++)
        if (together(open[i], job))
            ret[open[i]->array.index] = open[i];
    return job->array.size;
}
