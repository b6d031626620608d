package process

import (
	"context"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
)

// followStdio logs what a plugin of go-plugin's Serve writes to its os.Stdout and
// os.Stderr: a stream of their own, which must be read, or the plugin waits for ever. It
// returns when the connection is closed, or the plugin has no such stream.
func (in *instance) followStdio(lines *lineLog) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := in.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil || stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	outputs := make(map[uint64]*io.PipeWriter)
	for channel, name := range map[uint64]string{1: "stdout", 2: "stderr"} {
		r, w := io.Pipe()
		outputs[channel] = w
		in.streams.Go(func() { lines.copy(name, r, stdioRate) })
		defer w.Close()
	}
	for {
		var chunk emptypb.Empty // go-plugin's own type is internal; its fields are kept as unknown ones
		if stream.RecvMsg(&chunk) != nil {
			return
		}
		channel, data := stdioData(chunk.ProtoReflect().GetUnknown())
		if w := outputs[channel]; w != nil {
			_, _ = io.Copy(w, strings.NewReader(data))
		}
	}
}

// stdioData reads a plugin.StdioData: field 1 is the channel, 2 the data.
func stdioData(message []byte) (channel uint64, data string) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, ""
		}
		message = message[n:]
		switch {
		case number == 1 && kind == protowire.VarintType:
			channel, n = protowire.ConsumeVarint(message)
		case number == 2 && kind == protowire.BytesType:
			data, n = protowire.ConsumeString(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return 0, ""
		}
		message = message[n:]
	}
	return channel, data
}
