// Command kafka runs three fake clusters of github.com/twmb/franz-go:
//
//	kafka PORT,PORT,PORT PORT,PORT PORT CERT KEY
//
// The first has three brokers, and the topic orders with three partitions. The second has two brokers with TLS and
// logins of the user probe, whose password is "open sesame", and one partition. The group billing is two messages behind
// in the last partition of both, and the group fresh has an offset in the first one only. The third describes a cluster
// of two brokers with faults.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	plainsasl "github.com/twmb/franz-go/pkg/sasl/plain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	plain, err := kfake.NewCluster(kfake.Ports(ports(args[0])...), kfake.SeedTopics(3, "orders"))
	if err != nil {
		return err
	}
	defer plain.Close()
	cert, err := tls.LoadX509KeyPair(args[3], args[4])
	if err != nil {
		return err
	}
	secured, err := kfake.NewCluster(kfake.Ports(ports(args[1])...), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}),
		kfake.EnableSASL(), kfake.SeedTopics(1, "orders"), kfake.Superuser("PLAIN", "probe", "open sesame"),
		kfake.Superuser("SCRAM-SHA-256", "probe", "open sesame"), kfake.Superuser("SCRAM-SHA-512", "probe", "open sesame"))
	if err != nil {
		return err
	}
	defer secured.Close()
	login := []kgo.Opt{kgo.SASL(plainsasl.Auth{User: "probe", Pass: "open sesame"}.AsMechanism()), kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})}
	if err := errors.Join(seed(ctx, plain, 3), seed(ctx, secured, 1, login...)); err != nil {
		return err
	}
	faulty, err := kfake.NewCluster(kfake.Ports(ports(args[2])...))
	if err != nil {
		return err
	}
	defer faulty.Close()
	faulty.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		faulty.KeepControl()
		return faults(req.(*kmsg.MetadataRequest)), nil, true
	})
	<-ctx.Done()
	return nil
}

// seed produces five messages in each partition of orders, and commits offsets. Its versions of requests name topics.
func seed(ctx context.Context, c *kfake.Cluster, partitions int32, opts ...kgo.Opt) error {
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxVersions(kversion.V3_6_0()))...)
	if err != nil {
		return err
	}
	defer client.Close()
	billing := make(map[int32]int64)
	for p := range partitions {
		for range 5 {
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Partition: p, Value: []byte("x")}).FirstErr(); err != nil {
				return err
			}
		}
		billing[p] = 5
	}
	billing[partitions-1] = 3
	return errors.Join(commit(ctx, client, "billing", billing), commit(ctx, client, "fresh", map[int32]int64{0: 5}))
}

// commit commits the offsets of a group in the partitions of orders.
func commit(ctx context.Context, client *kgo.Client, group string, offsets map[int32]int64) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "orders"
	for number, offset := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = number, offset
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

func ports(text string) []int {
	var list []int
	for _, port := range strings.Split(text, ",") {
		n, err := strconv.Atoi(port)
		if err != nil {
			log.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// faults describes a cluster without a controller. The topic orders has a partition without a leader, and one with
// too few replicas.
func faults(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ControllerID = -1
	for i := range 2 {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = int32(i), "127.0.0.1", 9092
		resp.Brokers = append(resp.Brokers, broker)
	}
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = kmsg.StringPtr("orders")
	for i, leader := range []int32{0, -1, 1} {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.Replicas, p.ISR = int32(i), leader, []int32{0, 1}, []int32{0, 1}
		if leader != 0 {
			p.ISR = []int32{1}
		}
		topic.Partitions = append(topic.Partitions, p)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}
