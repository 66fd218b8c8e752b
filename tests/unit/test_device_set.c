/* device_set: two CPU devices share threads and memory; streams and networks are spread over them, and each lies where it was put.
 */
#include <omp.h>

#include "base/base.h"
#include "daemon/burst/burst_service.h"
#include "daemon/burst/network_host.h"
#include "daemon/burst/network_places.h"
#include "daemon/live/live_host.h"
#include "daemon/live/stream_places.h"
#include "unit/temp_dir.h"

static struct device_set *start_with(int threads, bool jobs_in_processes) {
    static const char *const names[] = {"cpu:0", "cpu:1"};
    static const struct live_host_config streams = {.precision = DTYPE_F32};
    static const struct network_host_config networks = {.most = 2};
    const struct device_set_config config = {.names = names,
                                             .n = 2,
                                             .threads = threads,
                                             .jobs_in_processes = jobs_in_processes,
                                             .hosts.rows = {[HOST_LIVE] = live_host_row(&streams),
                                                            [HOST_REPLAYS] = live_host_replays_row(&streams),
                                                            [HOST_NETWORKS] = network_host_row(&networks)}};
    struct device_set *set = NULL;
    struct err err;
    if (device_set_start(&config, &set, &err))
        fail_msg("%s", err.message);
    return set;
}

static struct device_set *start(int threads) { return start_with(threads, false); }

static void cpu_devices_share_threads_and_memory(void **state) {
    struct device_set *set = start(3);
    struct device_info machine, info[2];
    (void)state;
    assert_int_equal(device_probe("cpu", &machine, NULL), 0);
    for (int i = 0; i < 2; i++)
        device_hosts_describe(device_set_at(set, i), &info[i]);
    assert_int_equal(info[0].threads, omp_get_thread_limit() < 2 ? 1 : 2); /* a sanitizer's run has one */
    assert_int_equal(info[1].threads, 1);
    assert_true(info[0].total_bytes == machine.total_bytes / 2 && info[1].total_bytes == machine.total_bytes / 2);
    assert_string_equal(device_set_name(set, 1), "cpu:1");
    device_set_stop(set);
}

static void a_device_is_found_by_name_and_a_bad_one_takes_no_streams(void **state) {
    struct device_set *set = start(2);
    const struct stream_places streams = {.set = set};
    struct err err;
    int at = 0;
    (void)state;
    assert_int_equal(device_set_find(set, "cpu", &at, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "cpu:0, cpu:1"));
    assert_true(!stream_places_choose(&streams, "cpu:1", 0, &at, &err) && at == 1);
    assert_true(!stream_places_choose(&streams, "", 2, &at, &err) && at == 1);
    assert_int_equal(stream_places_choose(&streams, "cpu:0", 2, &at, &err), ERR_INVALID);
    device_set_hold(set, 0);
    assert_true(!stream_places_choose(&streams, "", 0, &at, &err) && at == 1);
    assert_int_equal(stream_places_choose(&streams, "cpu:0", 0, &at, &err), ERR_UNAVAILABLE);
    device_set_stop(set);
}

static void memory_promised_to_a_job_counts_until_it_ends(void **state) {
    struct device_set *set = start(2);
    struct device_room room;
    void *data = NULL;
    (void)state;
    device_set_reserve(set, 1, 1 << 20);
    device_set_room(set, 1, &room);
    int64_t used = room.used_bytes;
    assert_int_equal(room.reserved_bytes, 1 << 20);
    assert_int_equal(device_alloc(device_hosts_device(device_set_at(set, 1)), 1 << 19, &data, NULL), 0);
    device_set_room(set, 1, &room); /* the job uses a part of it */
    assert_true(room.used_bytes == used + (1 << 19) && room.reserved_bytes == 1 << 19);
    device_free(device_hosts_device(device_set_at(set, 1)), data);
    device_set_release(set, 1, 1 << 20);
    device_set_room(set, 1, &room);
    assert_int_equal(room.reserved_bytes, 0);
    device_set_stop(set);
}

/* A model that is loaded after the job began takes none of what the job was promised. */
static void memory_promised_to_a_process_stays_promised(void **state) {
    struct device_set *set = start_with(2, true);
    struct device *device = device_hosts_device(device_set_at(set, 1));
    struct device_room room;
    void *data = NULL;
    (void)state;
    device_set_reserve(set, 1, 1 << 20);
    assert_int_equal(device_alloc(device, 1 << 19, &data, NULL), 0);
    device_set_room(set, 1, &room);
    assert_int_equal(room.reserved_bytes, 1 << 20);
    device_free(device, data);
    device_set_release(set, 1, 1 << 20);
    device_set_room(set, 1, &room);
    assert_int_equal(room.reserved_bytes, 0);
    device_set_stop(set);
}

/* ---- networks ---- */

static void ignore(struct network_order *o) { network_order_free(o); }

/* Sends an order and returns it with its answer. */
static struct network_order *ask(struct burst_service *b, enum network_order_kind kind, const char *name, const char *device) {
    struct network_order *o = network_order_new(kind, name), *back = NULL;
    str_copy(o->device, sizeof o->device, device);
    o->done = ignore;
    assert_true(burst_service_post(b, o));
    while (!(back = burst_service_take(b)))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_ptr_equal(back, o);
    return back;
}

static void an_order_for_networks_visits_or_finds_its_device(void **state) {
    struct device_set *set = start(2);
    struct burst_service b = {.devices = set, .most = 2};
    (void)state;
    assert_int_equal(burst_service_open(&b, NULL), 0);
    struct network_order *o = ask(&b, NETWORK_LIST, "", "");
    assert_true(!o->err.code && o->n_infos == 0);
    network_order_free(o);
    o = ask(&b, NETWORK_STEP, "nobody", "");
    assert_int_equal(o->err.code, ERR_NOT_FOUND);
    network_order_free(o);
    o = ask(&b, NETWORK_CREATE, "a", "cpu:7");
    assert_int_equal(o->err.code, ERR_NOT_FOUND);
    network_order_free(o);
    device_set_stop(set);
    burst_service_close(&b);
}

/* What a caller's order to create a network on a device that is not there is answered with. */
static int create_code(struct burst_service *b, const char *caller) {
    struct network_order *o = network_order_new(NETWORK_CREATE, "x");
    str_copy(o->principal, sizeof o->principal, caller);
    str_copy(o->device, sizeof o->device, "cpu:7");
    assert_true(burst_service_post(b, o));
    assert_ptr_equal(burst_service_take(b), o);
    const int code = o->err.code;
    network_order_free(o);
    return code;
}

static void one_caller_leaves_a_network_to_others(void **state) {
    static const char *const names[] = {"a", "b", "c", "d"};
    struct device_set *set = start(1);
    struct burst_service b = {.devices = set, .most = 5, .shared = true};
    (void)state;
    assert_int_equal(burst_service_open(&b, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(create_code(&b, "token:x"), ERR_NOT_FOUND);
        network_places_begin(b.places, names[i], "token:x", 0);
    }
    assert_int_equal(create_code(&b, "token:x"), ERR_EXHAUSTED);
    assert_int_equal(create_code(&b, "token:y"), ERR_NOT_FOUND);
    b.shared = false; /* without tokens all callers are one */
    assert_int_equal(create_code(&b, "token:x"), ERR_NOT_FOUND);
    device_set_stop(set);
    burst_service_close(&b);
}

static void a_name_is_free_again_when_its_network_is_gone(void **state) {
    struct network_places *p = network_places_new(2);
    char name[NETWORK_NAME_SIZE];
    (void)state;
    network_places_begin(p, "a", "token:x", 1);
    network_places_end(p, "a", true);
    network_places_begin(p, "b", "token:x", 0);
    network_places_end(p, "b", false); /* it could not be made */
    assert_true(network_places_find(p, "a") == 1 && network_places_find(p, "b") == -1);
    network_places_begin(p, "net-1", "token:x", 0);
    network_places_end(p, "net-1", true);
    assert_true(network_places_full(p));
    assert_true(network_places_of(p, "token:x") == 2 && !network_places_of(p, "token:y"));
    network_places_pick(p, name);
    assert_string_equal(name, "net-2");
    network_places_begin(p, "a", "token:x", 1); /* created again before the answer that it was destroyed */
    network_places_drop(p, "a");
    assert_int_equal(network_places_find(p, "a"), 1);
    network_places_end(p, "a", false);
    assert_int_equal(network_places_find(p, "a"), -1);
    network_places_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_devices_share_threads_and_memory),
        cmocka_unit_test(a_device_is_found_by_name_and_a_bad_one_takes_no_streams),
        cmocka_unit_test(memory_promised_to_a_job_counts_until_it_ends),
        cmocka_unit_test(memory_promised_to_a_process_stays_promised),
        cmocka_unit_test(an_order_for_networks_visits_or_finds_its_device),
        cmocka_unit_test(one_caller_leaves_a_network_to_others),
        cmocka_unit_test(a_name_is_free_again_when_its_network_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
