package sdktest

import (
	"cmp"
	"context"
	"net"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/sdk"
)

// defaultPayload is the default of the host of a guest.
const defaultPayload = 56

// echo returns the Echo function of an [sdk.Host] with the hosts of a case.
func echo(world *plugintest.Native) func(context.Context, sdk.EchoRequest) (sdk.EchoReply, error) {
	return func(ctx context.Context, q sdk.EchoRequest) (sdk.EchoReply, error) {
		addrs, err := world.LookupIP(ctx, q.Host)
		if err != nil {
			return sdk.EchoReply{}, err
		}
		r := wasm.EchoRequest{Payload: cmp.Or(q.Payload, defaultPayload), HopLimit: q.HopLimit, DontFragment: q.DontFragment}
		for _, addr := range addrs {
			only := len(q.IPFamily) == 1 && (q.IPFamily == "4") != addr.Is4()
			preferred := q.IPFamily != "" && (q.IPFamily[0] == '4') == addr.Is4()
			if !only && (!r.Addr.IsValid() || preferred && (q.IPFamily[0] == '4') != r.Addr.Is4()) {
				r.Addr = addr
			}
		}
		if !r.Addr.IsValid() {
			return sdk.EchoReply{}, &net.DNSError{Err: "no address of the IP family that is asked for", Name: q.Host, IsNotFound: true}
		}
		got, err := world.Echo(ctx, r)
		return sdk.EchoReply{
			Local: got.Local.String(), Remote: r.Addr.String(), Payload: got.Payload, HopLimit: got.HopLimit, Setup: got.Setup, RTT: got.RTT,
		}, err
	}
}
