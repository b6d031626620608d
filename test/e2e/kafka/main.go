// Command kafka runs three fake clusters of github.com/twmb/franz-go:
//
//	kafka PORT,PORT,PORT PORT PORT CERT KEY
//
// The first has three brokers, and the topic orders with three partitions. The second has one broker with TLS and
// logins of the user probe, whose password is "open sesame". The third describes a cluster of two brokers with faults.
package main

import (
	"context"
	"crypto/tls"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
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
