/* counted: a number with its noun, for people: "1 thread", "2 threads", "930,087 windows". Any thread. */
#pragma once
#include <stdint.h>

/* By value, for the arguments of a print: counted(n, "event").text. noun: singular, its plural ends with s; "" = the number alone.
 */
struct counted {
    char text[64];
};
struct counted counted(int64_t n, const char *noun);
