// Pgx is a guest that asks PostgreSQL with database/sql and github.com/jackc/pgx, over
// [sdk.Dial]. TLS, where it is asked for, is made in the guest by crypto/tls.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(sdk.Func(check)) }

func check(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	config, err := connection(r)
	if err != nil {
		return probe.Outcome{}, err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	var answer string
	if err := db.QueryRowContext(ctx, r.Config.String("query", "SHOW server_version")).Scan(&answer); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return sdk.Successf("PostgreSQL answers %s", answer), nil
}

// connection is how to connect: names are left to the host, which resolves them in Dial.
func connection(r *sdk.Request) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig("postgres://" + r.Addr() + "/postgres?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.User, config.Password = r.Config.String("user", "postgres"), r.Config.String("password", "")
	config.DialFunc = sdk.Dial
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	if ca := r.Config.String("ca", ""); ca != "" {
		config.TLSConfig = &tls.Config{ServerName: r.Target.Host, RootCAs: x509.NewCertPool()}
		if !config.TLSConfig.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("ca: no certificate in PEM")
		}
	}
	return config, nil
}
