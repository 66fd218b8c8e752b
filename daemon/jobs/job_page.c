#include "daemon/jobs/job_page.h"

#include <sys/mman.h>

static int map(int fd, struct job_page **ret, struct err *err) {
    void *at = mmap(NULL, sizeof **ret, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return err_errno(err, errno, "cannot share memory with the process of a job");
    *ret = at;
    return 0;
}

int job_page_new(struct job_page **ret, char path[64], struct err *err) {
    int rc, fd = memfd_create("brrd-job", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof **ret)) {
        rc = err_errno(err, errno, "cannot make memory for the process of a job");
    } else if (!(rc = map(fd, ret, err))) {
        turns_init(&(*ret)->turns);
        for (int i = 0; i < TURNS_MAX; i++)
            file_cell_init(&(*ret)->files[i]);
        str_format(path, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
        return 0;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

int job_page_open(const char *path, struct job_page **ret, struct err *err) {
    OWNED_FD int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "cannot open %s, the memory of the daemon that started this job", path)
                  : map(fd, ret, err);
}
