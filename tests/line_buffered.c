/* line_buffered: what a test program printed is seen also when it is killed, so the last test that it began is known. */
#include <stdio.h>

__attribute__((constructor)) static void buffer_lines(void) { setvbuf(stdout, NULL, _IOLBF, 0); }
