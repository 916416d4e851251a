// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-pipes: does every message come through, once, whole and in order?
 *
 * Three streams run at full speed between threads: a pipe, a socket pair and a
 * TCP connection over loopback. Each message carries its number, a length that
 * varies, and a checksum; at the end the number sent must have been received.
 */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAYLOAD_MAX_BYTES 3000

struct message {
	uint64_t number;
	uint32_t bytes;
	uint32_t crc;
	uint8_t payload[PAYLOAD_MAX_BYTES];
};

#define HEADER_BYTES offsetof(struct message, payload)

struct stream {
	const char *name;
	int from_fd;
	int to_fd;
	uint64_t sent;
	atomic_ullong received;
};

static struct stream streams[] = { { .name = "pipe" },
				   { .name = "socketpair" },
				   { .name = "tcp" } };
#define STREAMS (sizeof(streams) / sizeof(streams[0]))
static atomic_bool stopping;

static void *send_messages(void *arg)
{
	struct stream *stream = arg;
	struct message message;

	while (!atomic_load(&stopping)) {
		message.number = stream->sent;
		message.bytes =
			(uint32_t)(check_mix(stream->sent) % PAYLOAD_MAX_BYTES);
		check_fill(message.payload, message.bytes, stream->sent);
		message.crc = check_crc32(message.payload, message.bytes);
		check_write(stream->to_fd, &message,
			    HEADER_BYTES + message.bytes);
		stream->sent++;
	}
	/* Not close(): of a socket pair it would be the same end. */
	if (shutdown(stream->to_fd, SHUT_WR))
		close(stream->to_fd);
	return NULL;
}

static void *receive_messages(void *arg)
{
	struct stream *stream = arg;
	struct message message;
	uint64_t expected = 0;

	while (check_read(stream->from_fd, &message, HEADER_BYTES)) {
		if (message.number != expected)
			check_fail("%s: message %llu, expected %llu",
				   stream->name,
				   (unsigned long long)message.number,
				   (unsigned long long)expected);
		if (message.bytes >= PAYLOAD_MAX_BYTES)
			check_fail("%s: length %u", stream->name,
				   message.bytes);
		if (message.bytes &&
		    !check_read(stream->from_fd, message.payload,
				message.bytes))
			check_fail("%s: ends inside a message", stream->name);
		if (check_crc32(message.payload, message.bytes) != message.crc)
			check_fail("%s: message %llu is damaged", stream->name,
				   (unsigned long long)expected);
		atomic_store(&stream->received, ++expected);
	}
	return NULL;
}

static void connect_tcp(struct stream *stream)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 ||
	    bind(listener, (struct sockaddr *)&address, bytes) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &bytes))
		check_fail_errno("listen on loopback");
	stream->to_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (stream->to_fd < 0 ||
	    connect(stream->to_fd, (struct sockaddr *)&address, bytes))
		check_fail_errno("connect over loopback");
	stream->from_fd = accept(listener, NULL, NULL);
	if (stream->from_fd < 0)
		check_fail_errno("accept");
	close(listener);
}

int main(int argc, char **argv)
{
	unsigned long threads[2 * STREAMS];
	unsigned long long total;
	int fds[2];

	check_begin(argc, argv, NULL);
	if (pipe(fds))
		check_fail_errno("pipe");
	streams[0].from_fd = fds[0];
	streams[0].to_fd = fds[1];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		check_fail_errno("socketpair");
	streams[1].from_fd = fds[0];
	streams[1].to_fd = fds[1];
	connect_tcp(&streams[2]);
	for (size_t i = 0; i < STREAMS; i++) {
		threads[2 * i] = check_thread(send_messages, &streams[i]);
		threads[2 * i + 1] =
			check_thread(receive_messages, &streams[i]);
	}
	do {
		check_sleep_ns(20 * NS_PER_MS);
		total = 0;
		for (size_t i = 0; i < STREAMS; i++)
			total += atomic_load(&streams[i].received);
		if (check_asked())
			check_at("messages=%llu", total);
	} while (check_go_on(total));
	atomic_store(&stopping, true);
	for (size_t i = 0; i < 2 * STREAMS; i++)
		check_join(threads[i]);
	for (size_t i = 0; i < STREAMS; i++)
		if (streams[i].sent != atomic_load(&streams[i].received))
			check_fail("%s: %llu sent, %llu received",
				   streams[i].name,
				   (unsigned long long)streams[i].sent,
				   atomic_load(&streams[i].received));
	return check_ok("pipe=%llu socketpair=%llu tcp=%llu",
			atomic_load(&streams[0].received),
			atomic_load(&streams[1].received),
			atomic_load(&streams[2].received));
}
