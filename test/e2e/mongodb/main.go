// Command mongodb runs a primary of a replica set, made of the packages of MongoDB's driver for messages and BSON and
// of the driver's SCRAM. Its user is probe, with the password "open sesame".
//
//	mongodb ADDRESS TLS-ADDRESS CERT KEY
package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/x/mongo/driver/wiremessage"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	users, err := credentials()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(args[2], args[3])
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	secured, err := tls.Listen("tcp", args[1], &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return err
	}
	go accept(secured, users)
	accept(plain, users)
	return nil
}

func accept(l net.Listener, users scram.CredentialLookup) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if err := serve(conn, users); err != nil && !errors.Is(err, io.EOF) {
				log.Print(err)
			}
		}()
	}
}

// credentials returns the function that looks up what the server knows of a user.
func credentials() (scram.CredentialLookup, error) {
	client, err := scram.SHA256.NewClient("probe", "open sesame", "")
	if err != nil {
		return nil, err
	}
	stored := client.GetStoredCredentials(scram.KeyFactors{Salt: "0123456789abcdef", Iters: 15000})
	return func(user string) (scram.StoredCredentials, error) {
		if user != "probe" {
			return scram.StoredCredentials{}, errors.New("unknown user")
		}
		return stored, nil
	}, nil
}

// serve answers the commands of a connection.
func serve(conn net.Conn, users scram.CredentialLookup) error {
	server, err := scram.SHA256.NewServer(users)
	if err != nil {
		return err
	}
	login := server.NewConversation()
	for {
		id, command, err := receive(conn)
		if err != nil {
			return err
		}
		answer, err := bson.Marshal(reply(command, login))
		if err != nil {
			return err
		}
		start, message := wiremessage.AppendHeaderStart(nil, id+1000, id, wiremessage.OpMsg)
		message = wiremessage.AppendMsgFlags(message, 0)
		message = wiremessage.AppendMsgSectionType(message, wiremessage.SingleDocument)
		message = append(message, answer...)
		message = bsoncore.UpdateLength(message, start, int32(len(message)))
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
}

// receive reads a command, with the number of its request.
func receive(conn net.Conn) (int32, bsoncore.Document, error) {
	head := make([]byte, 16)
	if _, err := io.ReadFull(conn, head); err != nil {
		return 0, nil, err
	}
	size, id, _, code, _, ok := wiremessage.ReadHeader(head)
	if !ok || code != wiremessage.OpMsg || size < 26 || size > 1<<20 {
		return 0, nil, fmt.Errorf("not a message: %x", head)
	}
	body := make([]byte, size-16)
	if _, err := io.ReadFull(conn, body); err != nil {
		return 0, nil, err
	}
	flags, body, _ := wiremessage.ReadMsgFlags(body)
	kind, body, _ := wiremessage.ReadMsgSectionType(body)
	command, rest, ok := wiremessage.ReadMsgSectionSingleDocument(body)
	if !ok || flags != 0 || kind != wiremessage.SingleDocument || len(rest) > 0 {
		return 0, nil, fmt.Errorf("a malformed message: %x", body)
	}
	return id, command, command.Validate()
}

func reply(command bsoncore.Document, login *scram.ServerConversation) bson.D {
	switch name := command.Index(0).Key(); name {
	case "hello":
		return bson.D{
			{Key: "topologyVersion", Value: bson.D{{Key: "processId", Value: primitive.NewObjectID()}, {Key: "counter", Value: int64(6)}}},
			{Key: "hosts", Value: bson.A{"db-0:27017", "db-1:27017", "db-2:27017"}}, {Key: "setName", Value: "rs0"},
			{Key: "isWritablePrimary", Value: true}, {Key: "secondary", Value: false}, {Key: "primary", Value: "db-0:27017"},
			{Key: "localTime", Value: time.Now()}, {Key: "maxWireVersion", Value: int32(21)}, {Key: "ok", Value: 1.0},
		}
	case "ping":
		return bson.D{{Key: "ok", Value: 1.0}}
	case "saslStart", "saslContinue":
		_, data, ok := command.Lookup("payload").BinaryOK()
		text, err := login.Step(string(data))
		if !ok || err != nil {
			return failure(18, "AuthenticationFailed", "Authentication failed.")
		}
		return bson.D{
			{Key: "conversationId", Value: int32(1)}, {Key: "done", Value: login.Done()},
			{Key: "payload", Value: primitive.Binary{Data: []byte(text)}}, {Key: "ok", Value: 1.0},
		}
	case "replSetGetStatus":
		if !login.Valid() {
			return failure(13, "Unauthorized", "Command replSetGetStatus requires authentication")
		}
		return status()
	default:
		return failure(59, "CommandNotFound", "no such command: '"+name+"'")
	}
}

func failure(code int32, name, text string) bson.D {
	return bson.D{{Key: "ok", Value: 0.0}, {Key: "errmsg", Value: text}, {Key: "code", Value: code}, {Key: "codeName", Value: name}}
}

// status describes a replica set with a secondary that is 90 seconds behind, and one that is not reachable.
func status() bson.D {
	now := time.Now()
	member := func(name string, health float64, state int32, text string, applied time.Time) bson.D {
		return bson.D{
			{Key: "_id", Value: int32(0)}, {Key: "name", Value: name}, {Key: "health", Value: health}, {Key: "state", Value: state},
			{Key: "stateStr", Value: text}, {Key: "optime", Value: bson.D{{Key: "ts", Value: primitive.Timestamp{T: uint32(applied.Unix()), I: 1}}, {Key: "t", Value: int64(1)}}},
			{Key: "optimeDate", Value: applied}, {Key: "configVersion", Value: int32(1)},
		}
	}
	return bson.D{
		{Key: "set", Value: "rs0"}, {Key: "date", Value: now}, {Key: "myState", Value: int32(1)}, {Key: "term", Value: int64(1)},
		{Key: "members", Value: bson.A{
			member("db-0:27017", 1, 1, "PRIMARY", now), member("db-1:27017", 1, 2, "SECONDARY", now.Add(-90*time.Second)),
			member("db-2:27017", 0, 8, "(not reachable/healthy)", time.Unix(0, 0)),
		}},
		{Key: "ok", Value: 1.0},
	}
}
