/* MD5 in lanes and in a batch, beside OpenSSL's. */
#include <openssl/evp.h>

#include "base/base.h"
#include "unit/temp_dir.h"

#include "store/md5_batch.h"
#include "store/md5_lanes.h"

enum { FILES = 36, THREADS = 20 };

static void openssl_md5(const unsigned char *data, size_t len, char ret[33]) {
    unsigned char sum[16];
    assert_int_equal(EVP_Digest(data, len, sum, NULL, EVP_md5(), NULL), 1);
    for (size_t i = 0; i < 16; i++)
        snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}

/* All lanes, or the eight that go without the others. */
static void every_length_of_the_last_block_is_right_in_every_lane(void **state) {
    (void)state;
    unsigned char data[MD5_LANES][200], last[MD5_LANES][2 * MD5_BLOCK];
    for (int i = 0; i < MD5_LANES; i++)
        for (int k = 0; k < 200; k++)
            data[i][k] = (unsigned char)(31 * i + 7 * k + k * k / 5);
    for (size_t len = 0; len < 200; len++) {
        struct md5_lanes l;
        const unsigned char *at[MD5_LANES], *end[MD5_LANES];
        size_t whole = len / MD5_BLOCK, blocks = 0;
        char got[33], want[33];
        for (int i = 0; i < MD5_LANES; i++) {
            md5_lanes_begin(&l, i);
            at[i] = data[i];
            end[i] = last[i];
            blocks = md5_lanes_last(data[i] + whole * MD5_BLOCK, len % MD5_BLOCK, len, last[i]);
        }
        int count = len % 2 ? MD5_LANES : 8;
        md5_lanes_blocks(&l, at, whole, count);
        md5_lanes_blocks(&l, end, blocks, count);
        for (int i = 0; i < count; i++) {
            openssl_md5(data[i], len, want);
            md5_lanes_hex(&l, i, got);
            assert_string_equal(got, want);
        }
    }
}

struct job {
    struct md5_batch *batch;
    int fds[FILES];
    char want[FILES][33];
    pthread_mutex_t lock;
    int next, wrong, failed;
};

static void *work(void *arg) {
    struct job *j = arg;
    for (;;) {
        char got[33] = "";
        struct err err = {0};
        pthread_mutex_lock(&j->lock);
        int i = j->next < FILES ? j->next++ : -1;
        pthread_mutex_unlock(&j->lock);
        if (i < 0)
            return NULL;
        md5_batch_enter(j->batch);
        int rc = md5_batch_file(j->batch, j->fds[i], "file", got, &err);
        md5_batch_leave(j->batch);
        pthread_mutex_lock(&j->lock);
        j->failed += rc != 0;
        j->wrong += !rc && strcmp(got, j->want[i]) != 0;
        pthread_mutex_unlock(&j->lock);
    }
}

/* More threads than lanes, files of all sizes, one that cannot be read. */
static void files_of_many_threads_get_their_own_sums(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 32768, 32767, 32769, 65536, 1000000, 300001, 5000000};
    struct job j = {.batch = md5_batch_new(), .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[THREADS];
    unsigned char *data = malloc(5000000);
    uint32_t random = 1;
    assert_non_null(j.batch);
    assert_non_null(data);
    for (int i = 0; i < FILES; i++) {
        char name[32];
        size_t len = sizes[i % 12];
        for (size_t k = 0; k < len; k++)
            data[k] = (unsigned char)((random = random * 1664525u + 1013904223u) >> 24);
        str_format(name, sizeof name, "file%d", i);
        j.fds[i] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(j.fds[i], data, len), (ssize_t)len);
        openssl_md5(data, len, j.want[i]);
    }
    close(j.fds[7]);
    j.fds[7] = open("file7", O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &j), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(j.failed, 1);
    assert_int_equal(j.wrong, 0);
    for (int i = 0; i < FILES; i++)
        close(j.fds[i]);
    md5_batch_free(j.batch);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_of_the_last_block_is_right_in_every_lane),
        in_temp_dir(files_of_many_threads_get_their_own_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
