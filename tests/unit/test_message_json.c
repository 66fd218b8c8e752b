#include "brr/v1/admin.pb-c.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brrctl/message_json.h"
#include "unit/cmocka_all.h"

/* The object with these fields of the message; the text lives until the next call. */
static const char *print(const ProtobufCMessage *message, const char *fields) {
    static char text[1000];
    struct str out;
    struct json_writer w;
    str_init(&out, sizeof text);
    json_writer_init(&w, &out);
    json_begin_object(&w, NULL);
    message_json(&w, message, fields);
    json_end(&w, '}');
    str_copy(text, sizeof text, str_cstr(&out));
    str_done(&out);
    return text;
}

static void fields_come_in_the_order_of_the_list_under_their_member_names(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    job.id = (char *)"7";
    job.attempts = 2;
    job.created_ms = 1700000000000;
    job.energy_joules = NAN;
    assert_string_equal(print(&job.base, "created_ms job=id attempts energy_joules"),
                        "{\"created_ms\":1700000000000,\"job\":\"7\",\"attempts\":2,\"energy_joules\":null}");
}

static void empty_texts_are_null_only_where_the_list_says_so(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    assert_string_equal(print(&job.base, "owner? reason"), "{\"owner\":null,\"reason\":\"\"}");
    job.owner = (char *)"uid:1";
    assert_string_equal(print(&job.base, "by=owner?"), "{\"by\":\"uid:1\"}");
}

static void messages_within_are_objects_and_absent_ones_are_left_out(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    char *overrides[] = {(char *)"a=1", (char *)"b=2"};
    assert_string_equal(print(&job.base, "file(name overrides) kind"), "{\"kind\":\"\"}");
    job.file = &file;
    assert_string_equal(print(&job.base, "file(name overrides) kind"), "{\"file\":{\"name\":\"\",\"overrides\":[]},\"kind\":\"\"}");
    file.overrides = overrides;
    file.n_overrides = 2;
    assert_string_equal(print(&job.base, "file(overrides)"), "{\"file\":{\"overrides\":[\"a=1\",\"b=2\"]}}");
}

static void repeated_messages_are_arrays_or_one_object(void **state) {
    (void)state;
    Brr__V1__Device device = BRR__V1__DEVICE__INIT;
    Brr__V1__DeviceReading warm = BRR__V1__DEVICE_READING__INIT, *readings[] = {&warm};
    Brr__V1__Device *devices[] = {&device};
    Brr__V1__DevicesResponse all = BRR__V1__DEVICES_RESPONSE__INIT;
    warm.name = (char *)"celsius";
    warm.value = 41.5;
    assert_string_equal(print(&device.base, "health=readings{name value}"), "{\"health\":{}}");
    device.readings = readings;
    device.n_readings = 1;
    all.devices = devices;
    all.n_devices = 1;
    assert_string_equal(print(&all.base, "devices(health=readings{name value} free_bytes)"),
                        "{\"devices\":[{\"health\":{\"celsius\":41.5},\"free_bytes\":0}]}");
}

static void states_and_texts_of_json_and_members_of_a_message(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    Brr__V1__Progress progress = BRR__V1__PROGRESS__INIT;
    job.state = BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED;
    assert_string_equal(print(&job.base, "state result=result_json!{} progress[step steps] energy_joules~"),
                        "{\"state\":\"succeeded\",\"result\":{},\"energy_joules\":null}");
    job.progress = &progress;
    job.energy_joules = 2.5;
    job.result_json = (char *)"[1,2]";
    progress.step = 3;
    assert_string_equal(print(&job.base, "result=result_json!{} progress[step steps] energy_joules~ attempts"),
                        "{\"result\":[1,2],\"step\":3,\"steps\":0,\"energy_joules\":2.5,\"attempts\":0}");
    job.result_json = (char *)"no JSON";
    assert_string_equal(print(&job.base, "result_json!null"), "{\"result_json\":null}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_and_texts_of_json_and_members_of_a_message),
        cmocka_unit_test(fields_come_in_the_order_of_the_list_under_their_member_names),
        cmocka_unit_test(empty_texts_are_null_only_where_the_list_says_so),
        cmocka_unit_test(messages_within_are_objects_and_absent_ones_are_left_out),
        cmocka_unit_test(repeated_messages_are_arrays_or_one_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
