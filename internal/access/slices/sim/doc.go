// Package sim runs the plan of endpoints through simulated time.
package sim
