// Command victim passes two points five times and says so.
package main

import (
	"fmt"

	"github.com/unavez/unavez/internal/crashpoint"
)

func main() {
	for i := range 5 {
		crashpoint.Hit("victim.other")
		crashpoint.Hit("victim.here")
		fmt.Println(i)
	}
	fmt.Println("end", crashpoint.Enabled)
}
